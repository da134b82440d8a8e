"""What attacks by name found, as a document."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from adumbra.audit.attacks import Attack
from adumbra.report.document import Document, Table, Text, Value

__all__ = ["attack_document"]

_ON_PURPOSE = " (A target that is broken on purpose.)"
_WORDING = "An attack that gets further than the promise allows refutes the promise; one that does not proves nothing."


def attack_document(results: Sequence[Attack], *, private: bool) -> Document:
    """The `results` beside what each promise allows; `private` if they were made from a true table."""
    rows: list[dict[str, Value]] = [
        {
            "#": number,
            "attack": result.name.replace("_", " "),
            "target": result.target,
            "success": f"{result.success:.3g}",
            "interval": f"{result.low:.3g} to {result.high:.3g}",
            "chance": f"{result.chance:.3g}",
            "allowed": "-" if result.allowed is None else f"{result.allowed:.3g}",
            "verdict": f"attack {result.verdict}" if result.allowed is None else result.verdict,
        }
        for number, result in enumerate(results, 1)
    ]
    counted = [(n, f"{r.meaning}. {r.explanation}{_ON_PURPOSE * (not r.ours)}") for n, r in enumerate(results, 1)]
    return Document(
        f"{len(results)} attack{'' if len(results) == 1 else 's'}",
        (
            dataclasses.replace(Table.of(rows), long="target"),
            Table(("#", "what was counted"), tuple(counted), long="what was counted"),
            Text(_WORDING),
        ),
        {"wording": _WORDING, "attacks": [result.to_json() for result in results]},
        private=private,
    )
