"""`adumbra evaluate`: the owner's utility report, printed. Nothing is written into the release folder."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from adumbra.cli.keys import PublicKeyOption, TrustedOption, keys_of
from adumbra.cli.output import HtmlOption, Reporter, check_new, note, show, write_page
from adumbra.common.files import new_file
from adumbra.common.shown import shown_json

__all__ = ["evaluate", "write_report"]


def evaluate(
    folder: Annotated[Path, typer.Argument(help="release folder", metavar="DIR")],
    truth: Annotated[str, typer.Option(help="the table that the release was made from")],
    test: Annotated[
        str | None, typer.Option(help="held-out rows to test models on; default: a quarter of the truth")
    ] = None,
    label: Annotated[str | None, typer.Option(help="column to predict; default: the labels of the schema")] = None,
    delimiter: Annotated[str | None, typer.Option(help="field separator of text tables, for example ';'")] = None,
    public_key: PublicKeyOption = None,
    trusted: TrustedOption = False,
    out: Annotated[Path | None, typer.Option(help="write the report (JSON) to a file that only you can read")] = None,
    json: Annotated[bool, typer.Option("--json", help="machine-readable output")] = False,
    html: HtmlOption = None,
) -> None:
    """Owner's side: how good a release is, measured against the truth. The report is private, not for publishing."""
    from adumbra.evaluate.report import evaluate_release

    keys = keys_of(public_key, trusted)
    check_new(out, "--out")
    check_new(html, "--html")
    with Reporter() as reporter:
        found = evaluate_release(folder, truth, test, label, delimiter=delimiter, progress=reporter, public_key=keys)
    if out is not None:
        write_report(out, found.to_dict())
    if html is not None:
        write_page(found.document(), html)
    if json or out is None:
        show(found.document(), json=json)


def write_report(out: Path, content: dict[str, Any]) -> None:
    """A report that was made from the truth, for its owner's eyes."""
    with new_file(out, private=True) as file:
        text = dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        file.write(shown_json(text).encode() + b"\n")
    note(f"private report written to {out}")
