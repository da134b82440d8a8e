"""Documents for machines: their data, as it is."""

from __future__ import annotations

import json

from adumbra.common.shown import shown_json
from adumbra.report.document import Document

__all__ = ["as_json"]


def as_json(document: Document) -> str:
    r"""The data of a document as JSON; characters that steer a terminal are escaped as JSON has it.

    >>> as_json(Document("", (), {"name": "\u202eage"}))
    '{\n  "name": "\\u202eage"\n}\n'
    """
    return shown_json(json.dumps(document.data, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"
