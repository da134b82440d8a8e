"""Mistyped commands and options: what was expected, what was typed, what to do; exit code 2, nothing begun."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Home, Result

Cli = Callable[..., Result]

TRIPLES = {
    "card": ("a command of adumbra: schema, plan, release", "unknown command 'card'", "see adumbra --help"),
    "relase t.csv": ("a command of adumbra:", "unknown command 'relase'", "did you mean release?"),
    "ledger shwo": ("a command of adumbra ledger: show, check, cap", "unknown command 'shwo'", "did you mean show?"),
    "answer r distnace": ("a command of adumbra answer:", "unknown command 'distnace'", "did you mean distance?"),
    "--frobnicate": ("an option of adumbra: --version", "unknown option --frobnicate", "see adumbra --help"),
    "ledger show --tabel t": ("an option of adumbra ledger show: --ledger", "option --tabel", "did you mean --table?"),
    "answer r count --foo 1": ("an option of adumbra answer DIR count: --where", "unknown option --foo", "--help"),
    "jupa fit --utilty y": ("an option of adumbra jupa fit: --out, --utility", "--utilty", "did you mean --utility?"),
    "release": ("TABLE (CSV", "no TABLE", "add TABLE; see adumbra release --help"),
    "release t.csv": ("--schema (schema.toml", "no --schema", "add --schema and its value; see adumbra release --help"),
    "plan t.csv --schema s.toml": ("--epsilon (privacy loss", "no --epsilon", "see adumbra plan --help"),
    "plan t.csv --schema s.toml --epsilon abc": ("--epsilon as a number", "'abc'", "see adumbra plan --help"),
    "plan t.csv --schema s.toml --epsilon=zz": ("--epsilon as a number", "'zz'", "correct it"),
    "plan t.csv --schema s.toml --epsilon 1 --unit x": ("--unit as one of row, cell", "'x'", "correct it"),
    "ledger cap t --line x": ("--line as a whole number", "'x'", "see adumbra ledger cap --help"),
    "ledger show --table": ("a value after --table", "none", "write one"),
    "ledger show --json=3": ("--json without a value", "one", "leave out ="),
    "verify a b": ("adumbra verify [OPTIONS] DIR", "more than that: b", "leave it out"),
}  # fmt: skip


@pytest.mark.parametrize("typed", TRIPLES)
def test_usage_errors_are_plain_triples(cli: Cli, home: Home, typed: str) -> None:
    result = cli(*typed.split())
    assert (result.code, result.out) == (2, "")
    said = dict(zip(("error: expected ", "got ", "to do: "), result.err.splitlines(), strict=True))
    for (start, line), wanted in zip(said.items(), TRIPLES[typed], strict=True):
        assert line.strip().startswith(start)
        assert wanted in line.strip().removeprefix(start)
    assert "Usage" not in result.err
    assert not (home.path / "r").exists()


def test_a_group_without_a_command_answers_with_its_help(cli: Cli) -> None:
    result = cli("ledger")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: adumbra ledger")
    assert "Commands:" in result.err
