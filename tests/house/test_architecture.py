"""The wall, held by machine: one door, one accessor, no noise and no private rows anywhere else."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import adumbra

SOURCE = Path(adumbra.__file__).parent
MODULES = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in SOURCE.rglob("*.py")}


@cache  # a file is parsed once for all tests
def names_in(text: str) -> set[str]:
    tree = ast.parse(text)
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def users_of(name: str) -> set[str]:
    return {module for module, text in MODULES.items() if name in names_in(text)}


def imports_of(module: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(MODULES[module])):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_only_the_meter_reads_private_rows():
    assert users_of("_for_the_meter") == {"privacy/private_rows.py", "privacy/meter.py"}
    assert users_of("_PrivateRows__open") == set()


def test_private_rows_are_made_in_one_place():
    makers = {
        module
        for module, text in MODULES.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PrivateRows"
    }
    assert makers == {"rehearsal.py"}
    assert users_of("open_meter") == {"rehearsal.py", "pipeline.py"}


def test_one_reader_encodes_and_clips_rows():
    """Whoever reads a table for its encoded rows sees what the release saw (JUPA encodes public records by itself)."""
    encoders = {module for module in MODULES if "adumbra.tables.encode.encode" in imports_of(module)}
    assert encoders == {"tables/row_source.py"}
    assert users_of("clip_rows") == {"tables/clip.py", "tables/row_source.py"}


def test_only_the_meter_adds_noise():
    for name in ("add_noise", "add_l2_noise", "add_l2_noise_by_row"):
        assert users_of(name) == {"noise/add.py", "privacy/meter.py"}


def test_noise_is_keyed_by_the_operating_system_only():
    assert users_of("operating_system_key") == {"noise/add.py"}
    allowed = {"noise/add.py", "common/randomness.py"}  # the noise key, and the public seed
    assert users_of("urandom") <= allowed


def test_no_statistical_generator_touches_a_release():
    """numpy's generators appear only where nothing private is.

    Analysts' random pairs and queries, the papers' own algorithms, attackers' coins, the fixed start of an eigensolver,
    and rows drawn from a model that may itself be published.
    """
    audits = {module for module in MODULES if module.startswith("audit/")}  # no release can reach them (make contract)
    harmless = {"kinds/projection_answers.py", "numerics/spectrum.py"}
    assert users_of("default_rng") - audits <= harmless
    of_public_things = ("models/", "families/", "published/", "numerics/", "counting/", "jupa/learning/")
    behind_the_wall = audits | {m for m in MODULES if m.startswith(of_public_things)}
    assert users_of("Generator") <= behind_the_wall
    assert "Generator" not in names_in(MODULES["noise/lattice.py"]) | names_in(MODULES["noise/lattice_tables.py"])
    assert not any("import random" in text or "from random" in text for text in MODULES.values())


def test_mechanisms_never_see_the_budget_or_the_noise():
    for module in MODULES:
        if module.startswith("mechanisms/"):
            imported = imports_of(module)
            assert not any(name.startswith(("adumbra.noise.add", "adumbra.privacy.meter")) for name in imported)
            assert not any(name.startswith(("adumbra.ledger", "adumbra.tables")) for name in imported)


def test_mechanisms_receive_the_promise_only_to_plan():
    """`run` and `queries` take no promise; `outlook`, which measures nothing, does."""
    for module, text in MODULES.items():
        if module.startswith("mechanisms/"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and "promise" in {a.arg for a in node.args.args}:
                    assert node.name == "outlook"


def test_utility_aware_releases_leave_by_one_function():
    """Not differentially private, so all the more: one place writes them, with coins of the operating system."""
    assert users_of("seal") == {"releases/staging.py", "publish.py", "jupa/apply.py"}
    assert users_of("apply_jupa") == {"jupa/apply.py", "cli/jupa_command.py"}
    seeded = {module for module in MODULES if "SeededCoins" in names_in(MODULES[module])}
    assert all(module.startswith("audit/") for module in seeded)
    drawing = [m for m in MODULES if m.startswith("jupa/") and not m.startswith(("jupa/scoring.py", "jupa/learning/"))]
    assert not any({"default_rng", "Generator", "urandom"} & names_in(MODULES[m]) for m in drawing)


def test_analysts_never_open_a_private_table():
    for module in MODULES:
        if module == "result.py" or module.startswith("kinds/"):
            assert not any(name.startswith("adumbra.pipeline") for name in imports_of(module))
            assert "open_table" not in names_in(MODULES[module])


def test_no_pickle_no_eval_no_assert_on_user_input():
    for module, text in MODULES.items():
        assert not {"pickle", "eval", "exec"} & names_in(text), module
        assert "allow_pickle=True" not in text, module


def test_every_type_ignore_gives_its_reason():
    for module, text in MODULES.items():
        for line in text.splitlines():
            if "type: ignore" in line:
                assert "# type: ignore[" in line and line.count("#") >= 2, f"{module}: {line.strip()}"


def test_pipeline_stays_short_enough_to_read():
    code = [line for line in MODULES["pipeline.py"].splitlines() if line.strip()]
    assert len(code) < 230
