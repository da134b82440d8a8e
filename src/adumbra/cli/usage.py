"""Mistyped commands and options, in the same three parts as every other error.

What the parser found wrong is known by the fields of its exceptions and, for a value, by its words: its classes are
private to the parser and differ between its versions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import typer

from adumbra.common.errors import InputError

__all__ = ["USAGE_ERROR", "explained_usage"]

# typer keeps its own copy of click or uses the installed one, by version; this is the class in either.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]

_CHOICES = re.compile(r"is not one of (.+?)\.?$")
_KINDS = (("integer", "a whole number"), ("number", "a number"), ("float", "a number"), ("boolean", "yes or no"))


def explained_usage(error: Any) -> InputError | list[str]:
    """What was typed wrongly; or lines of help, which answer a group of commands without a command."""
    message = error.format_message()
    if message.startswith("Usage:"):
        return list(message.splitlines())
    command: Any = getattr(error.ctx, "command", None)
    place = "the command" if error.ctx is None else _plain(error.ctx.command_path)
    help_page = "see its --help" if error.ctx is None else f"see {place} --help"
    commands = getattr(command, "commands", None)
    if commands and "o such command" in message:
        typed = _unknown_command(message)
        return InputError(
            f"a command of {place}: {', '.join(commands)}",
            f"unknown command {typed!r}",
            _near(typed, commands, help_page),
        )
    if getattr(error, "param", None) is not None:
        missing = hasattr(error, "param_type")
        return _missing(error.param, help_page) if missing else _bad_value(error.param, error.message, help_page)
    if hasattr(error, "possibilities"):
        known = [
            name
            for param in command.get_params(error.ctx)  # one that takes a recipe knows its options no sooner
            for name in (*param.opts, *param.secondary_opts)
            if name[0] == "-"
        ]
        typed = error.option_name
        return InputError(
            f"an option of {place}: {', '.join(known)}", f"unknown option {typed}", _near(typed, known, help_page)
        )
    if hasattr(error, "option_name"):
        if "not take a value" in message:
            return InputError(f"{error.option_name} without a value", "one", "leave out = and what follows it")
        return InputError(f"a value after {error.option_name}", "none", f"write one; {help_page}")
    usage = place if error.ctx is None else _plain(error.ctx.get_usage().removeprefix("Usage:"))
    more = re.search(r"unexpected extra argument(?:s|\(s\))? \((.*)\)", message)
    got = message.strip().rstrip(".") if more is None else f"more than that: {more[1]}"
    return InputError(usage, got, f"leave it out, or put an option's name before it; {help_page}")


def _plain(text: str) -> str:
    return " ".join(text.replace("{", "").replace("}", "").split())


def _unknown_command(message: str) -> str:
    found = re.search(r"command ['\"](.*?)['\"]\.", message)
    return message if found is None else found[1]


def _near(typed: str, known: Iterable[str], otherwise: str) -> str:
    near = get_close_matches(typed, list(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


def _shown_name(param: Any) -> str:
    """`--epsilon`, or the name of an argument as the help has it."""
    return str(param.opts[0]) if param.opts[0].startswith("-") else str(param.metavar or param.name.upper())


def _missing(param: Any, help_page: str) -> InputError:
    name = _shown_name(param)
    about = f" ({param.help})" if param.help else ""
    return InputError(f"{name}{about}", f"no {name}", f"add {name}{' and its value' * (name[0] == '-')}; {help_page}")


def _bad_value(param: Any, message: str, help_page: str) -> InputError:
    name = _shown_name(param)
    choices = _CHOICES.search(message)
    if choices is not None:
        wanted = f"one of {choices[1].replace(chr(39), '')}"
    else:
        wanted = next((words for kind, words in _KINDS if kind in message), "another value")
    return InputError(f"{name} as {wanted}", _typed(param, message), f"correct it; {help_page}")


def _typed(param: Any, message: str) -> str:
    """What was written for it: the last time it was, as the parser takes it."""
    quoted = re.search(r"'(.*?)' is not", message)
    found = [] if quoted is None else [quoted[1]]
    for option in () if found else param.opts:
        for word, following in zip(sys.argv[1:], [*sys.argv[2:], ""], strict=True):
            if word == option:
                found.append(following)
            elif word.startswith(f"{option}="):
                found.append(word.removeprefix(f"{option}="))
    return repr(found[-1]) if found else "something else"
