"""No file and no function grows beyond what can be read in one go; what is longer today may only get shorter."""

from __future__ import annotations

import tomllib

from house.__main__ import HOME, LIMITS, LONGEST_FILE, LONGEST_FUNCTION, Measure, broken, lowered, too_long
from house.source import Source

SOURCE = Source(HOME / "src" / "adumbra")
KNOWN = tomllib.loads(LIMITS.read_text(encoding="utf-8"))


def test_no_source_file_is_longer_than_400_lines():
    found = too_long(SOURCE.file_sizes(), LONGEST_FILE, KNOWN["files"])
    assert not found, "\n".join(found)


def test_no_function_is_longer_than_60_lines():
    found = too_long(SOURCE.function_sizes(), LONGEST_FUNCTION, KNOWN["functions"])
    assert not found, "\n".join(found)


def test_what_is_long_may_only_get_shorter():
    known = {"a.py": 500, "b.py": 450, "c.py": 420, "d.py": 410, "gone.py": 600}
    sizes = {"a.py": 501, "b.py": 450, "c.py": 419, "d.py": 400, "new.py": 401}
    assert too_long(sizes, 400, known) == [
        "a.py has 501 lines, at most 500",
        "new.py has 401 lines, at most 400",
        "c.py has shrunk to 419 lines: write that into limits.toml",
        "d.py is short enough, or gone: take it out of limits.toml",
        "gone.py is short enough, or gone: take it out of limits.toml",
    ]


def test_a_number_above_its_limit_breaks_it_and_limits_are_never_raised():
    rows = [Measure("readers", "readers", "9", (1,), (5,)), Measure("sizes", "sizes", "", (0, 0), (2, 3))]
    assert broken(rows, {"readers": [5], "sizes": [2, 3]}) == []
    above = broken(rows, {"readers": [4], "sizes": [2, 2]})
    assert above == ["readers: (5,), at most (4,)", "sizes: (2, 3), at most (2, 2)"]
    assert broken(rows, {"readers": [5]}) == ["sizes: no limit in limits.toml"]
    kept = {"most": {"readers": [4], "sizes": [7, 1]}, "files": {"gone.py": 500}, "functions": {}, "words": {}}
    written = tomllib.loads(lowered(rows, SOURCE, kept))
    assert written == {"most": {"readers": [4], "sizes": [2, 1]}, "files": {}, "functions": {}, "words": {}}
