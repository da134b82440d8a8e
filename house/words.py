"""Words that strangers stumble over, and what to write instead. One list, for the sources and for all pages."""

from __future__ import annotations

import re
from pathlib import Path

_BEFORE = (
    "a|an|one|two|three|first|second|third|later|earlier|next|last|each|every|all|several|both|another|single|same|small|"
    "Gaussian|no|of"
)
WORDS = {
    re.compile(rf"\b(?:{_BEFORE})\s+looks?\b(?!\s+(?:at|like))", re.IGNORECASE): "measurement",
    re.compile(r"\blooks?\s+(?:are|is|together|share|that (?:was|were))\b", re.IGNORECASE): "measurement",
    re.compile(r",\s+say(?=\s*[,.;:)\"'])|\(say\b|\bsay,\s\d"): "for example",
    re.compile(r"\bfore(?:told|seen)\b", re.IGNORECASE): "predicted",
    re.compile(r"\bmilliard", re.IGNORECASE): "billion, or 1e9",
    re.compile(r"\bhang(?:s|ing)? together\b", re.IGNORECASE): "correlated",
    re.compile(r"\b(?:row|number|noise) a (?:person|cell|record)\b", re.IGNORECASE): "per",
    re.compile(r"\bFrom no paper\b"): "This mechanism is our own",
}
"""What not to write, and what to write."""


def stumbles(home: Path) -> dict[str, list[str]]:
    """Places in the sources, the pages and the examples, by file: the line, what stands there, what to write."""
    pages = [*home.glob("*.md"), *(home / "docs").rglob("*.md")]
    sources = [path for room in ("src/adumbra", "examples") for path in (home / room).rglob("*.py")]
    found: dict[str, list[str]] = {}
    for path in sorted([*pages, *sources]):
        if path.name == "CHANGELOG.md":  # what was said at the time stays
            continue
        text = path.read_text(encoding="utf-8")
        for pattern, better in WORDS.items():
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                told = f"line {line}: {' '.join(match.group().split())!r}, write {better}"
                found.setdefault(str(path.relative_to(home)), []).append(told)
    return found
