"""From the text of a rule to a tree.

The language is small and has a parser of its own: whatever is not in the grammar is refused with a word on what to
write, and nothing is ever evaluated as Python.

    rule        if CONDITION then CONDITION | CONDITION
    expression  if CONDITION then expression else expression | CONDITION | SUM
    CONDITION   or, and, not; = == != < <= > >= (chains too); in [...], not in [...]; is missing, is not missing
    SUM         + - * / // %, unary minus, calls, columns, numbers, 'text', true, false, (expression)
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from adumbra.common.errors import InputError

__all__ = ["FUNCTIONS", "KEYWORDS", "Node", "names_of", "parse", "wrong"]

LONGEST, _MOST_TOKENS, _DEEPEST, _TALLEST = 20_000, 3_000, 25, 60
_LARGEST = 2**53

KEYWORDS = ("if", "then", "else", "and", "or", "not", "in", "is", "missing", "true", "false")
FUNCTIONS: dict[str, tuple[int, int]] = {
    "min": (2, 9),
    "max": (2, 9),
    "abs": (1, 1),
    "round": (1, 2),
    "year": (1, 1),
    "month": (1, 1),
    "day": (1, 1),
    "weekday": (1, 1),
    "hour": (1, 1),
    "minute": (1, 1),
    "date": (1, 1),
    "datetime": (1, 1),
    "time": (1, 1),
    "days": (1, 1),
    "hours": (1, 1),
    "minutes": (1, 1),
    "seconds": (1, 1),
}
"""Names of functions, with the fewest and most arguments of each."""

_COMPARE = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.])
    |(?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |`(?P<quoted>[^`]+)`
    |(?P<word>[^\W\d]\w*)
    |(?P<mark>//|==|!=|<>|<=|>=|[-+*/%=<>()\[\],]))""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Node:
    """One operation of a rule as it was written; `value` is the name, the literal or the order it stands for."""

    op: str
    args: tuple[Node, ...] = ()
    value: Any = None


def wrong(where: str, expected: str, got: str, remedy: str) -> InputError:
    """The error of a rule: `where` it stands, what was `expected`, what it `got`, and the `remedy`."""
    return InputError(f"{where}: {expected}", got, remedy)


def parse(text: object, where: str, *, rule: bool) -> Node:
    """The tree of a text. `where` begins every error; with `rule`, `if` needs no `else`.

    >>> parse("discharge >= admission", "rule 1", rule=True)
    Node(op='compare', args=(Node(op='column', args=(), value='discharge'), Node(op='column', args=(), \
value='admission')), value=('>=',))
    """
    if not isinstance(text, str) or not text.strip():
        got = "nothing" if isinstance(text, str) else f"a {type(text).__name__}"
        raise wrong(where, "text", got, "for example, write \"if relationship = 'Husband' then sex = 'Male'\"")
    if len(text) > LONGEST:
        raise wrong(where, f"at most {LONGEST:,} characters", f"{len(text):,}", "write several rules")
    return _Parser(_tokens(text, where), where).whole(rule)


def names_of(node: Node) -> frozenset[str]:
    """Columns that a tree names."""
    own = frozenset([node.value]) if node.op == "column" else frozenset[str]()
    return own.union(*(names_of(arg) for arg in node.args))


def _tokens(text: str, where: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:].lstrip()
            remedy = "write operators, numbers, 'text' in quotes, and columns; odd names go in `backticks`"
            if rest[0] in "'\"`":
                remedy = f"close the {rest[0]} that was opened"
            elif rest[0] == ".":
                remedy = "write a name with a dot in backticks: `body.mass`"
            raise wrong(where, "an expression", f"{rest[:20]!r}", remedy)
        kind = str(match.lastgroup)
        found.append((kind, match[kind]))
        at = match.end()
        if len(found) > _MOST_TOKENS:
            raise wrong(where, f"at most {_MOST_TOKENS:,} words", "more", "write several rules")
    return found


class _Parser:
    """Recursive descent over tokens; the depth is counted, so no text can exhaust the stack."""

    def __init__(self, tokens: list[tuple[str, str]], where: str) -> None:
        self.tokens, self.where, self.at, self.depth = tokens, where, 0, 0

    def whole(self, rule: bool) -> Node:
        node = self.expression(rule)
        if self.at < len(self.tokens):
            raise self.error(
                "an operator, or the end",
                "join conditions with and, or; write if A then B, or is missing, in small letters",
            )
        return node

    def error(self, expected: str, remedy: str) -> InputError:
        got = repr(self.tokens[self.at][1][:40]) if self.at < len(self.tokens) else "the end"
        before = self.tokens[self.at - 1][1][:40] if self.at else ""
        return wrong(self.where, expected, f"{got} after {before!r}" if before else got, remedy)

    def peek(self, *words: str) -> bool:
        if self.at >= len(self.tokens):
            return False
        kind, text = self.tokens[self.at]
        return kind in ("word", "mark") and text in words

    def take(self, *words: str) -> bool:
        found = self.peek(*words)
        self.at += found
        return found

    def need(self, word: str, remedy: str) -> None:
        if not self.take(word):
            raise self.error(repr(word), remedy)

    def made(self, op: str, args: tuple[Node, ...] = (), value: Any = None) -> Node:
        node = Node(op, args, value)
        if _height(node, _TALLEST) > _TALLEST:
            raise wrong(self.where, "a shorter expression", "a very long one", "write several rules or derived columns")
        return node

    def expression(self, rule: bool = False) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise wrong(self.where, f"at most {_DEEPEST} levels of brackets", "more", "write several rules")
        if self.take("if"):
            condition = self.expression()
            self.need("then", "write if CONDITION then ...")
            node = self.consequence(condition, rule)
        else:
            node = self.either()
        self.depth -= 1
        return node

    def consequence(self, condition: Node, rule: bool) -> Node:
        first = self.expression(rule)
        if self.take("else"):
            return self.made("choose", (condition, first, self.expression(rule)))
        if not rule:
            raise self.error("'else'", "write if CONDITION then VALUE else VALUE")
        return self.made("implies", (condition, first))

    def either(self) -> Node:
        parts = [self.both()]
        while self.take("or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else self.made("or", tuple(parts))

    def both(self) -> Node:
        parts = [self.negation()]
        while self.take("and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else self.made("and", tuple(parts))

    def negation(self) -> Node:
        turns = 0
        while self.take("not"):
            turns += 1
        node = self.comparison()
        return self.made("not", (node,)) if turns % 2 else node

    def comparison(self) -> Node:
        first = self.sum()
        if self.take("is"):
            absent = not self.take("not")
            self.need("missing", "write `is missing` or `is not missing`")
            node = self.made("missing", (first,))
            return node if absent else self.made("not", (node,))
        negated = self.take("not")
        if self.take("in"):
            node = self.made("in", (first,), self.listed())
            return self.made("not", (node,)) if negated else node
        if negated:
            raise self.error("'in'", "write not in [...], or put not before the condition")
        parts, orders = [first], []
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "mark" and self.tokens[self.at][1] in _COMPARE:
            orders.append(_COMPARE[self.tokens[self.at][1]])
            self.at += 1
            parts.append(self.sum())
        return self.made("compare", tuple(parts), tuple(orders)) if orders else first

    def listed(self) -> tuple[Any, ...]:
        self.need("[", "write the values in square brackets: in ['A', 'B']")
        found: list[Any] = []
        while not self.take("]"):
            if found:
                self.need(",", "put commas between the values and ] after the last")
            sign = -1 if self.take("-") else 1
            node = self.atom()
            if node.op != "literal" or (sign < 0 and (isinstance(node.value, str | bool))):
                self.at -= 1
                raise self.error("a number, 'text', true or false", "a list holds literals only")
            found.append(-node.value if sign < 0 else node.value)
        if not found:
            raise wrong(self.where, "values in the list", "none", "write in ['A', 'B']")
        return tuple(found)

    def sum(self) -> Node:
        node = self.product()
        while self.peek("+", "-"):
            op = self.tokens[self.at][1]
            self.at += 1
            node = self.made(op, (node, self.product()))
        return node

    def product(self) -> Node:
        node = self.signed()
        while self.peek("*", "/", "//", "%"):
            op = self.tokens[self.at][1]
            self.at += 1
            if self.peek("*"):
                raise self.error("a number or a column", "there are no powers: write products, x * x")
            node = self.made(op, (node, self.signed()))
        return node

    def signed(self) -> Node:
        turns = 0
        while self.take("-"):
            turns += 1
        node = self.atom()
        return self.made("negative", (node,)) if turns % 2 else node

    def atom(self) -> Node:
        if self.take("("):
            node = self.expression()
            self.need(")", "close the bracket that was opened")
            return node
        if self.at >= len(self.tokens):
            raise self.error("a column, a number or 'text'", "finish the expression; write if A then B, is missing")
        kind, text = self.tokens[self.at]
        if kind == "mark" or (kind == "word" and text in KEYWORDS and text not in ("true", "false")):
            hint = f"; a column of that name goes in backticks: `{text}`" if kind == "word" else ""
            raise self.error(
                "a column, a number or 'text'",
                f"finish the expression; write if A then B, or is missing, in small letters{hint}",
            )
        self.at += 1
        if kind == "number":
            return Node("literal", value=self.number(text))
        if kind == "text":
            return Node("literal", value=text[1:-1].replace(text[0] * 2, text[0]))
        if kind == "word" and self.peek("("):
            return self.call(text)
        if kind == "word" and text in ("true", "false"):
            return Node("literal", value=text == "true")
        return Node("column", value=text)

    def call(self, name: str) -> Node:
        if name not in FUNCTIONS:
            self.at -= 1
            raise self.error(f"a function among {', '.join(FUNCTIONS)}", "write one of them; there are no others")
        self.at += 1
        args = [self.expression()]
        while self.take(","):
            args.append(self.expression())
        self.need(")", "put commas between arguments and ) after the last")
        fewest, most = FUNCTIONS[name]
        if not fewest <= len(args) <= most:
            many = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            raise wrong(self.where, f"{name}() of {many} arguments", f"{len(args)}", "correct the call")
        return self.made("call", tuple(args), name)

    def number(self, text: str) -> int | float:
        value = int(text) if text.isdigit() and len(text) < 20 else float(text)
        if not math.isfinite(value) or abs(value) > _LARGEST:
            raise wrong(self.where, "numbers of at most 2^53", f"{text[:20]}", "write an ordinary number")
        return value


def _height(node: Node, most: int) -> int:
    """Height of a tree, by nodes; stops counting above `most`."""
    level, height = [node], 0
    while level and height <= most:
        level = [arg for one in level for arg in one.args]
        height += 1
    return height
