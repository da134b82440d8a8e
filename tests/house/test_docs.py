"""The documentation is true: links resolve, named tests exist, commands and code run, nothing public is missing."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer.main

import adumbra
from adumbra.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TEST_NAME = re.compile(r"tests/(\w+/test_\w+)\.py(?:::(test_\w+))?")
BARE_TEST = re.compile(r"`(test_\w+)`")  # a function named without its file


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def prose(content: str) -> str:
    return FENCE.sub("", content)


def anchors(content: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", prose(content), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", names(PAGES))
def test_links_resolve(page):
    for target in LINK.findall(prose(text(page))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        assert found.exists(), f"{page}: {target} leads nowhere"
        assert found.is_relative_to(ROOT), f"{page}: {target} leads out of the project"
        if anchor:
            assert anchor in anchors(found.read_text(encoding="utf-8")), f"{page}: no heading for {target}"


def test_every_page_is_listed():
    """No page that a reader cannot find from the index or from the list of proofs."""
    listed = {
        (ROOT / index).parent.joinpath(target).resolve()
        for index in ("docs/index.md", "docs/proofs/index.md")
        for target in LINK.findall(text(index))
    }
    missing = [page for page in PAGES if page.resolve() not in listed | {(ROOT / "docs" / "index.md").resolve()}]
    assert not missing, f"not in an index: {names(missing)}"


@pytest.mark.parametrize("page", names(PAGES))
def test_tests_that_are_named_exist(page):
    for module, function in TEST_NAME.findall(text(page)):
        file = ROOT / "tests" / f"{module}.py"
        assert file.exists(), f"{page} names {file.name}, which does not exist"
        if function:
            assert function in functions(file), f"{page} names {module}::{function}, which does not exist"
    for function in BARE_TEST.findall(text(page)):
        somewhere = any(function in functions(file) for file in (ROOT / "tests").rglob("test_*.py"))
        assert somewhere, f"{page} names {function}, which does not exist"


@pytest.mark.parametrize("page", names(sorted((ROOT / "docs" / "proofs").glob("*.md"))))
def test_every_proof_names_its_tests(page):
    if not page.endswith("index.md"):
        assert TEST_NAME.search(text(page)) or BARE_TEST.search(text(page)), f"{page} names no test"


PROOFS = [page for page in names(sorted((ROOT / "docs" / "proofs").glob("*.md"))) if not page.endswith("index.md")]
NAMED_TEST = re.compile(r"`tests/(\w+/test_\w+)\.py::(test_\w+)`")


def last_table(content: str) -> list[list[str]]:
    """Cells of the table that a page ends with; nothing if it ends with something else."""
    found: list[list[str]] = []
    for line in reversed(content.rstrip().splitlines()):
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return found[::-1]


@pytest.mark.parametrize("page", PROOFS)
def test_every_proof_ends_with_the_tests_that_would_fail(page):
    head, rule, *rows = last_table(text(page)) or [[], []]
    assert len(head) == 2 and "test" in head[1] and set("".join(rule)) <= set("-:"), f"{page} ends without such a table"
    assert len(rows) >= 3, f"{page}: hardly a list of claims"
    for what, tests in rows:
        found = NAMED_TEST.findall(tests)
        assert what and found, f"{page}: no test is named for {what!r}"
        assert not NAMED_TEST.sub("", tests).strip(" ,"), f"{page}: more than names of tests for {what!r}"
        for module, function in found:
            file = ROOT / "tests" / f"{module}.py"
            assert file.exists() and function in functions(file), f"{page}: {module}::{function} does not exist"


def test_every_query_and_every_mechanism_has_its_proof():
    """A class that the meter can answer, and a mechanism that the catalogue finds, cannot go without a proof."""
    from adumbra.mechanisms.catalogue import catalogue
    from adumbra.queries.row_map import RowMap
    from adumbra.queries.second_moment import RowsAndGram
    from adumbra.queries.sums import Sum

    assert catalogue()  # and so every module with a question in it is loaded
    found = [kind for kind in all_below(Sum) if kind.__module__.startswith("adumbra.")]
    ours = [kind for kind in found if not kind.__subclasses__()]
    assert len(ours) >= 10
    bounds = "".join(text(f"docs/proofs/{page}.md") for page in ("row-map", "sums", "strategies", "pairs"))
    for kind in (RowMap, RowsAndGram, *ours):
        assert f"(`{kind.__name__}`)" in bounds, f"no page proves the bound of {kind.__name__}"
    page = text("docs/proofs/mechanisms.md")
    for name, mechanism in catalogue().items():
        assert f"**{name}.**" in page, f"docs/proofs/mechanisms.md says nothing of {name}"
        ((_, units, relations, *_),) = [row for row in table_rows(page) if row[0] == f"`{name}`"]
        assert units == ", ".join(mechanism.units)
        drawing = "replace, zero-out, add-remove"  # written out for the first mechanism that draws rows
        assert {"the same": drawing, "all": drawing}.get(relations, relations) == ", ".join(mechanism.relations)


def all_below(kind: type) -> list[type]:
    return [one for below in kind.__subclasses__() for one in (below, *all_below(below))]


def table_rows(content: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in content.splitlines()
        if line.startswith("|")
    ]


def test_the_shares_on_the_page_of_mechanisms_are_those_of_the_code():
    from adumbra.declare.guarantee import Relation
    from adumbra.mechanisms.catalogue import build
    from adumbra.queries.sums import Count

    table, schema = sample()
    page = text("docs/proofs/mechanisms.md")
    for name, shares in {
        "dppro": "rows: 1",
        "dprp": "rows and second moment: 1",
        "tables": "tables: 1",
        "moments": "centre and scale: 0.2; moments: 0.8",
        "pairs": "tables: 0.1; fine tables: 0.1; joint tables: 0.8",
    }.items():
        planned = adumbra.plan(table, schema, build(name, {}), adumbra.Budget(1.0))
        assert "; ".join(f"{line}: {share:g}" for line, share in planned.shares.items()) == shares
        ((_, _, _, stated, _),) = [row for row in table_rows(page) if row[0] == f"`{name}`"]
        assert stated == shares
    for name in ("tables", "moments", "hybrid", "pairs"):
        budget = adumbra.Budget(1.0, relation=Relation.ADD_REMOVE)
        planned = adumbra.plan(table, schema, build(name, {}), budget)
        assert planned.shares["size"] == 0.02 and isinstance(planned.queries["size"], Count)
        assert sum(planned.shares.values()) == pytest.approx(1.0)


def sample():
    import polars as pl

    columns = {"a": {"kind": "number", "low": 0, "high": 1}, "y": {"kind": "flag", "role": "label"}}
    return pl.DataFrame({"a": [0.1, 0.7], "y": [True, False]}), adumbra.Schema.from_dict({"columns": columns})


def test_the_list_of_proofs_links_every_page():
    index = set(LINK.findall(text("docs/proofs/index.md")))
    missing = [page for page in PROOFS if Path(page).name not in index]
    assert not missing, f"docs/proofs/index.md does not link {missing}"


def patients() -> str:
    """A small table for the commands of README and docs/cli.md."""
    rows = [
        f"{i},{20 + 7 * i % 60},{'FM'[i % 2]},{('yes', 'no')[i % 3 == 0]},{('alive', 'dead')[i % 5 == 0]}"
        for i in range(40)
    ]
    return "\n".join(["id,age,sex,smoker,outcome", *rows]) + "\n"


@pytest.mark.parametrize("page", ["README.md", "docs/cli.md"])
def test_commands_run_as_shown(page, home, cli):
    """A line `[exit N]` after a command is its exit code, 0 where there is none; a toml block is a file."""
    home.write("patients.csv", patients())
    ran = 0
    for language, body in FENCE.findall(text(page)):
        if language == "toml" and body.startswith("# "):
            home.write(body.splitlines()[0].removeprefix("# "), body)
        if language != "console":
            continue
        lines = body.splitlines()
        for line, after in zip(lines, [*lines[1:], ""], strict=True):
            if not line.startswith("$ "):
                assert re.fullmatch(r"\[exit \d\]", line), f"{page}: a console line that is no command: {line}"
                continue
            wanted = int(after[6:-1]) if after.startswith("[exit") else 0
            words = shlex.split(line[2:])
            if words[0] == "adumbra":
                done = cli(*words[1:])
                assert done.code == wanted, f"{page}: {line} ended with {done.code}\n{done.err}"
            else:
                assert subprocess.run(line[2:], shell=True, cwd=home.path).returncode == wanted, f"{page}: {line}"
            ran += 1
    assert ran >= 5


def pages_with_python() -> list[str]:
    """README needs a table first; tests/sklearn and tests/audit run their pages, and more."""
    elsewhere = {"README.md", "docs/sklearn.md", "docs/attacks.md"}
    return [page for page in names(PAGES) if page not in elsewhere and python_blocks(page)]


def python_blocks(page: str) -> list[str]:
    return [body for language, body in FENCE.findall(text(page)) if language == "python"]


@pytest.mark.parametrize("page", pages_with_python())
def test_python_of_every_page_runs(page, home, capsys):
    run_python(page)


def test_numbers_of_the_pitfall_of_several_rows(home, capsys):
    """Where the page of pitfalls states numbers, its own line prints them."""
    run_python("docs/pitfalls.md")
    (block,) = python_blocks("docs/pitfalls.md")
    assert capsys.readouterr().out.strip() == block.rpartition("# ")[2].strip()
    for number in re.findall(r"\d+\.\d", block.rpartition("# ")[2]):
        assert number in prose(text("docs/pitfalls.md"))


def test_python_of_the_readme_runs(home, capsys):
    home.write("patients.csv", patients())
    (schema,) = [body for language, body in FENCE.findall(text("README.md")) if language == "toml"]
    home.write("patients.toml", schema)
    run_python("README.md")


def run_python(page: str) -> None:
    names: dict[str, object] = {}
    blocks = python_blocks(page)
    assert blocks
    for body in blocks:
        exec(compile(body, page, "exec"), names)  # noqa: S102 - our own pages


def public_names() -> list[str]:
    tree = ast.parse((ROOT / "src" / "adumbra" / "__init__.py").read_text())
    found = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("adumbra.")
        for alias in node.names
        if alias.asname
    }
    return sorted(found)


def test_every_public_name_is_documented():
    names = public_names()
    assert len(names) >= 15 and all(hasattr(adumbra, name) for name in names)
    missing = [name for name in names if not re.search(rf"\bad\.{name}\b", text("docs/python.md"))]
    assert not missing, f"docs/python.md says nothing of {missing}"


def commands(command, path=()):
    """Every command with its options, from the program itself."""
    yield path, [o for p in command.params for o in p.opts if o.startswith("--")]
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


def test_every_command_and_option_is_documented():
    page = text("docs/cli.md")
    for path, options in commands(typer.main.get_command(app)):
        if path:
            assert re.search(rf"\b{path[-1]}\b", page), f"docs/cli.md does not mention {' '.join(path)}"
        for option in options:
            assert re.search(rf"{option}\b", page), f"docs/cli.md: {' '.join(path)} has {option}"


def test_every_option_of_a_mechanism_is_documented():
    from adumbra.mechanisms.catalogue import catalogue, options

    for name in catalogue():
        page = text(f"docs/mechanisms/{name}.md")
        for option in options(name):
            assert f"`--{option.replace('_', '-')}`" in page, f"docs/mechanisms/{name}.md: --{option}"


def test_numbers_of_the_rule_for_pairs_are_those_of_the_code():
    from adumbra.mechanisms import pairs
    from adumbra.models import pair_model, residual_tables, row_moves

    page, rule = (" ".join(text(f"docs/mechanisms/{name}.md").split()) for name in ("pairs", "auto"))
    assert f"clarity is at least {pairs.CLEAR:g}" in page
    assert f"(pairs.md#when-it-is-chosen) is at least {pairs.CLEAR:g} |" in rule
    assert f"{pairs.SUPPOSED_ROWS:,} rows are supposed" in page and f"{pairs.SUPPOSED_ROWS:,} for the clarity" in rule
    assert f"(#when-it-is-chosen) is at least {pairs._THREE_FROM:g}" in page
    assert f"clarity at run time is below {pairs._LEAST_CLEAR:g}" in page
    assert f"at most {pairs._MOST_COLUMNS} columns" in page and pairs._MOST_NUMBERS == 2**24
    rooms, parts = zip(*pairs._PARTS[::-1], strict=True)
    numbers = ", ".join(str(number) for number in parts[:-1]) + f" or {parts[-1]} cells"
    below = ", ".join(f"{room:,.0f}" for room in rooms[1:-1]) + f" or {rooms[-1]:,.0f} times"
    assert f"{numbers} of about equal mass (rows below {below}" in page
    assert f"below {pairs._MERGED_BELOW:g} deviations" in page
    assert f"up to {residual_tables._MOST_COLUMNS} columns" in page
    assert f"At most {row_moves._SWEEPS} visits to all rows, {pair_model._AT_ONCE:,} rows at a time" in page


def test_pages_of_mechanisms_state_the_units_and_relations_of_the_code():
    from adumbra.mechanisms.catalogue import catalogue

    for name, mechanism in catalogue().items():
        if hasattr(mechanism, "run"):  # auto has those of what it picks
            ((units, relations),) = re.findall(
                r"^Units: (.*?)\. Relations: ([^(.]*)", text(f"docs/mechanisms/{name}.md"), re.MULTILINE
            )
            assert re.findall(r"`(.*?)`", units) == list(mechanism.units), name
            assert re.findall(r"`(.*?)`", relations) == list(mechanism.relations), name


def test_every_mechanism_is_shown_to_a_newcomer():
    """README links what a steward needs and the page with all; index and the page on Python have each."""
    from adumbra.mechanisms.catalogue import catalogue, options

    for link in ("mechanisms/auto", "mechanisms/histogram", "researchers"):
        assert f"(docs/{link}.md)" in text("README.md")
    assert {18: "Eighteen"}[len(catalogue()) - 2] + " more can be chosen by hand" in text("README.md")
    for name, mechanism in catalogue().items():
        assert f"(mechanisms/{name}.md)" in text("docs/researchers.md")
        assert f"(mechanisms/{name}.md)" in text("docs/index.md")
        assert f"`ad.{mechanism.__name__}({', '.join(options(name))})`" in text("docs/python.md")


def test_the_card_of_the_readme_is_the_one_the_demo_prints(home):
    """Every number of the quoted card, but those that differ from run to run, follows from the demo's plan."""
    demo = example("demo")
    table = demo.breast_cancer().with_row_index("row")
    train = table.filter(table["row"] % demo.HELD_OUT > 0).drop("row")
    schema = adumbra.Schema.from_dict(tomllib.loads(demo.schema_text(train.height)))
    card = adumbra.release(train, schema, adumbra.Auto(rows=10_000), adumbra.Budget(1.0)).card
    from adumbra.releases.card_page import card_markdown

    printed = " ".join(re.sub(r"^> ?", "", card_markdown(card), flags=re.MULTILINE).split())
    quoted = [line.removeprefix("> ") for line in text("README.md").splitlines() if line.startswith("> ")]
    words = " ".join(line for line in quoted if not line.startswith(("|", "#")))
    for part in [*words.split("[...]"), *(line.split("[...]")[0] for line in quoted if line.startswith("| "))]:
        if part.strip(" |"):
            assert " ".join(part.split()) in printed, f"README quotes what the card does not say: {part}"


def example(name: str):
    """An example as a module; examples find each other by folder, as when they are run."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(ROOT / "examples"))


def test_numbers_of_the_published_page(capsys):
    """Each number in the page's tables is one that its command prints."""
    module = example("published_dppro")
    for part in ("theorem_2", "one_hot", "unscaled", "experiments", "sigmas", "lemma_5"):
        getattr(module, part)()
    printed = {float(n) for n in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", capsys.readouterr().out)}
    for row in re.findall(r"^\|(.*)\|$", text("docs/proofs/published-dppro.md"), re.MULTILINE):
        for cell in row.split("|"):
            number = cell.strip(" *")
            if re.fullmatch(r"\d+(?:\.\d+)?(?:e-\d+)?", number):
                assert float(number) in printed or number == "1.414", f"{number} is not printed"


def test_demo_declares_ranges_that_hold_the_data_and_come_from_no_data():
    """The demo's ranges are constants in the file, wide enough that its own table is not clipped."""
    demo = example("demo")
    table = demo.breast_cancer()
    assert table.shape == (569, 31)
    for column, (low, high) in demo.RANGES.items():
        assert low <= table[column].min() and table[column].max() <= high
    schema = adumbra.Schema.from_dict(tomllib.loads(demo.schema_text()))
    assert len(schema.released) == 31


def test_the_picture_is_there():
    picture = ROOT / "docs" / "images" / "distances.png"
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_gap(page):
    assert not re.search(r"^(RESULTS|CATALOGUE|TODO|TBD)\b", page.read_text(), re.MULTILINE)
