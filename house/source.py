"""Measures of the source that need no run: sizes, names used twice, documented parameters, readers, types asked for."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Place:
    """A line of the source, and what stands there."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.what}"


class Source:
    """All Python files of a package: text and syntax trees by their path below it."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.texts = {str(p.relative_to(package)): p.read_text(encoding="utf-8") for p in sorted(package.rglob("*.py"))}

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Syntax trees by file."""
        return {file: ast.parse(text) for file, text in self.texts.items()}

    # ---- sizes

    def lines(self) -> int:
        """Lines of all files, blank ones too."""
        return sum(self.file_sizes().values())

    def file_sizes(self) -> dict[str, int]:
        """Lines of each file."""
        return {file: len(text.splitlines()) for file, text in self.texts.items()}

    def function_sizes(self) -> dict[str, int]:
        """Lines of each function, from `def` to its last line, by file::name; of two of one name the longer counts."""
        found: dict[str, int] = {}
        for file, tree in self.trees.items():
            for name, node in _functions(tree):
                key = f"{file}::{name}"
                found[key] = max(found.get(key, 0), (node.end_lineno or node.lineno) - node.lineno + 1)
        return found

    # ---- names

    def classes_used_twice(self) -> dict[str, list[str]]:
        """Names of classes, without leading underscores, that several files use; the papers' own forms aside."""
        found: dict[str, list[str]] = defaultdict(list)
        for file, tree in self.trees.items():
            if file.startswith("published/"):
                continue
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    found[node.name.lstrip("_")].append(file)
        return {name: files for name, files in found.items() if len(files) > 1}

    def modules_used_twice(self) -> dict[str, list[str]]:
        """Names of files that stand in several folders; the papers' own forms aside."""
        found: dict[str, list[str]] = defaultdict(list)
        for file in self.texts:
            stem = Path(file).stem.lstrip("_")
            if stem != "init__" and not file.startswith("published/"):
                found[stem].append(file)
        return {name: files for name, files in found.items() if len(files) > 1}

    # ---- documents

    def exported(self) -> Iterator[tuple[str, Function]]:
        """Functions in their module's `__all__`, and public methods of classes that are."""
        for file, tree in self.trees.items():
            names = _all(tree)
            for node in tree.body:
                if isinstance(node, Function) and node.name in names:
                    yield f"{file}::{node.name}", node
                if isinstance(node, ast.ClassDef) and node.name in names:
                    for method in node.body:
                        if isinstance(method, Function) and not method.name.startswith("_"):
                            yield f"{file}::{node.name}.{method.name}", method

    def undocumented(self, *, methods: bool) -> tuple[list[str], int]:
        """Exported functions of three parameters or more that name none of them, and how many there are in all.

        With `methods`, those of exported classes; without, functions that stand by themselves. A command whose options
        all have a help text is documented: the text is printed by `--help` and on the page of commands.
        """
        several = [
            (name, node)
            for name, node in self.exported()
            if ("." in name.split("::")[1]) is methods and len(_parameters(node)) >= 3
        ]
        helped = self.helped_types()
        bare = [name for name, node in several if not _documented(node) and not _all_helped(node, helped)]
        return bare, len(several)

    def helped_types(self) -> set[str]:
        """Names of types of options that carry a help text, and of groups all of whose options do."""
        found = {"Context"}  # typer's own: no option
        for tree in self.trees.values():
            for node in tree.body:
                if isinstance(node, ast.Assign) and _has_help(node.value, found):
                    found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for tree in self.trees.values():
            for node in tree.body:
                fields = [part for part in getattr(node, "body", ()) if isinstance(part, ast.AnnAssign)]
                if isinstance(node, ast.ClassDef) and fields and all(_has_help(f.annotation, found) for f in fields):
                    found.add(node.name)
        return found

    # ---- what asks or reads

    def query_checks(self) -> list[Place]:
        """Lines that ask of which type a query is."""
        types = self.query_types()
        found = []
        for file, tree in self.trees.items():
            lines: dict[int, str] = {}
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and _leaf(node.func) == "isinstance" and len(node.args) == 2:
                    asked = {part for leaf in ast.walk(node.args[1]) for part in [_leaf(leaf)] if part in types}
                    if asked:
                        lines[node.lineno] = "isinstance " + "|".join(sorted(asked))
                if isinstance(node, ast.MatchClass) and _leaf(node.cls) in types:
                    lines[node.cls.lineno] = f"case {_leaf(node.cls)}"
            found += [Place(file, line, what) for line, what in sorted(lines.items())]
        return found

    def query_types(self) -> set[str]:
        """Classes of the rooms that hold queries, whose instances are measured."""
        rooms = ("queries/", "core/")  # the second as the house was before it had a room of its own
        found: set[str] = set()
        bases: dict[str, set[str]] = {}
        for file, tree in self.trees.items():
            if file.startswith(rooms):
                for node in tree.body:
                    if isinstance(node, ast.ClassDef):
                        bases[node.name] = {leaf for base in node.bases if (leaf := _leaf(base))}
        roots = {"Query", "Sum", "RowMap", "RowsAndGram"}
        grown = roots & set(bases)
        while grown != found:
            found = set(grown)
            grown = found | {name for name, above in bases.items() if above & found}
        return found

    def readers(self) -> list[str]:
        """Files that encode a table's cells themselves, or clip what was encoded: one is enough."""
        makers = {"encode", "clip_rows"}
        found = []
        for file, tree in self.trees.items():
            names = {
                alias.asname or alias.name: alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and re.search(r"tables?\.(encode|clip|bound)$", node.module or "")
                for alias in node.names
            }
            calls = {names.get(_leaf(node.func) or "") for node in ast.walk(tree) if isinstance(node, ast.Call)}
            if calls & makers:
                found.append(file)
        return found


# ---- kinds that are sniffed

_FREE = {"parameters", "facts", "arrays", "answers", "found"}
"""Dictionaries of a card or of a release whose keys are free."""
_PROSE = {"releases", "title", "sentence", "promise_text", "words"}
"""Attributes of a card that hold sentences for people."""
_NAMED = re.compile(r"measured_|rows cut to|matrix|coordinates|row-aligned|components|spectrum")


def sniffs(source: Source, spared: tuple[str, ...] = ()) -> tuple[list[Place], list[Place]]:
    """Places that tell a kind of release by keys, names or prose; and reads of facts by a free key.

    `spared` are files that may read by key: those that read a kind's own facts from its card.
    """
    told: list[Place] = []
    read: list[Place] = []
    for file, tree in source.trees.items():
        free = _aliases(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                if _text(node.left) is not None and _holds(node.comparators[0], _FREE | _PROSE, free):
                    told.append(Place(file, node.lineno, ast.unparse(node)))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                first = _text(node.args[0]) if node.args else None
                if first is None:
                    continue
                if node.func.attr in ("startswith", "endswith") and _NAMED.search(first):
                    told.append(Place(file, node.lineno, ast.unparse(node)))
                elif node.func.attr == "get" and _holds(node.func.value, {"parameters", "facts"}, free):
                    read.append(Place(file, node.lineno, ast.unparse(node)))
            elif (
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Load)
                and _text(node.slice) is not None
                and _holds(node.value, {"parameters", "facts"}, free)
            ):
                read.append(Place(file, node.lineno, ast.unparse(node)))
    return told, [place for place in read if not place.file.startswith(spared)]


def _aliases(tree: ast.Module) -> set[str]:
    """Names that a file gives to a card's free dictionaries."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _attribute(node.value) in {"parameters", "facts"}:
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _holds(node: ast.expr, names: set[str], aliases: set[str]) -> bool:
    """Whether this is an attribute of one of these names, or a name that stands for one."""
    if isinstance(node, ast.Name):
        return node.id in aliases or (node.id in names and node.id in {"arrays", "answers"})
    return _attribute(node) in names


def _attribute(node: ast.expr) -> str | None:
    """The last name of an attribute; none where it is one of what a call returns, as of a signature."""
    return node.attr if isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Call) else None


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


# ---- syntax


def _functions(tree: ast.AST, before: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        name = before
        if isinstance(node, Function):
            name = f"{before}{node.name}"
            yield name, node
            name += "."
        elif isinstance(node, ast.ClassDef):
            name = f"{before}{node.name}."
        yield from _functions(node, name)


def _all(tree: ast.Module) -> set[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return {str(leaf.value) for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
    return set()


def _parameters(node: Function) -> list[str]:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [argument.arg for argument in given if argument.arg not in ("self", "cls")]


def _documented(node: Function) -> bool:
    """Whether a docstring names a parameter in backticks, or has a list of them."""
    text = ast.get_docstring(node) or ""
    if re.search(r"^\s*(Args|Parameters):?\s*$", text, re.MULTILINE):
        return True
    quoted = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    return bool(quoted & set(_parameters(node)))


def _all_helped(node: Function, helped: set[str]) -> bool:
    """Whether each parameter is an option with a help text, as those of a command are."""
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return all(part.annotation is not None and _has_help(part.annotation, helped) for part in given)


def _has_help(annotation: ast.expr, helped: set[str]) -> bool:
    """Whether an annotation is one of these names, or holds an option or argument of typer with a help text."""
    return _leaf(annotation) in helped or any(
        isinstance(part, ast.Call)
        and _leaf(part.func) in ("Option", "Argument")
        and any(word.arg == "help" for word in part.keywords)
        for part in ast.walk(annotation)
    )


def _leaf(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None
