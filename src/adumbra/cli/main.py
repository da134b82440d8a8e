"""The command line: parse, call, print.

Exit codes: 0 done, 1 the answer is no (verification failed, ledger exhausted or damaged), 2 bad usage or bad input and
nothing was spent, 3 a defect of adumbra, 4 something failed after the work was charged or written, which stays, 130
interrupted. Results go to stdout, everything else to stderr.

Heavy libraries are imported inside the commands that need them: help answers at once, and an interrupt while they
load is handled like any other.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the rest is loaded, as the installed command does
    from adumbra.cli.start import leave_quietly

    leave_quietly()

import contextlib
import io
import os
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from adumbra.cli import answers, audits, evaluations, jobs, keys, ledgers, utility
from adumbra.cli.foreign import called, silence
from adumbra.cli.output import emit, emit_json, note, print_error, print_table
from adumbra.core.errors import PAID, AdumbraError, InputError
from adumbra.core.interrupts import asked_to_stop, listening, stop_if_asked

__all__ = ["app", "command", "run"]

_INTERRUPTED = 130

app = typer.Typer(
    help="Release wide tables privately, and prove what it gives away.",
    epilog="Start with: adumbra schema TABLE --out schema.toml; then plan, then release.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.command()(jobs.schema)
for _command in (jobs.plan, jobs.release, audits.audit):
    app.command(cls=jobs.MechanismCommand, context_settings=jobs.EXTRA_OPTIONS)(_command)
app.add_typer(answers.app, name="answer")
app.add_typer(ledgers.app, name="ledger")
app.add_typer(utility.app, name="jupa")
app.command()(evaluations.evaluate)
app.command()(jobs.basis)
app.command()(jobs.dictionary)
app.command()(keys.verify)
app.command()(keys.keygen)

JsonOption = jobs.JsonOption


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="print the version")] = False,
) -> None:
    """Release wide tables privately, and prove what it gives away."""
    if version:
        from importlib.metadata import version as installed

        emit(f"adumbra {installed('adumbra')}\n")
        raise typer.Exit


@app.command()
def mechanisms(json: JsonOption = False) -> None:
    """The catalogue: what each mechanism releases, protects and can answer."""
    from adumbra.mechanisms.catalogue import catalogue, options

    found: list[dict[str, Any]] = [
        {
            "name": m.name,
            "title": m.title,
            "units": list(m.units),
            "relations": list(m.relations),
            "delta": {"any": "any", "zero": "0, whatever is allowed", "positive": "positive"}[_deltas(m)],
            "guarantee": m.theorem,
            "releases": m.releases,
            "suits": m.suits,
            "caution": m.caution,
            "answers": list(m.answers),
            "options": {key: str(field.type) for key, field in options(name).items()},
            "references": [r.text for r in m.cites],
        }
        for name, m in catalogue().items()
    ]
    if json:
        emit_json(found)
        return
    for entry in found:
        print_table("", ("mechanism", entry.pop("name")), [(k, _listed(v)) for k, v in entry.items()])


def _deltas(mechanism: Any) -> str:
    return getattr(mechanism, "deltas", "any")  # a chooser has none of its own


def _listed(value: Any) -> str | list[str]:
    if isinstance(value, dict):
        return ", ".join(f"--{k.replace('_', '-')} ({v.replace(' | None', '')})" for k, v in value.items())
    if isinstance(value, list):
        return value if any(", " in item for item in value) else ", ".join(value)
    return str(value)


def run() -> None:
    """Entry point: run the command and leave with its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: nobody reads it
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for as long as the process lives
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a letter without a place there ends no paid release
    silence()
    try:
        code = command()
    except KeyboardInterrupt:  # a second one, while the first was being reported
        code = _INTERRUPTED
    for written in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            written.flush()
    # Everything is written and cleaned up. A reading thread that a library left behind (a file given up half-way)
    # can abort the process while Python shuts down and so change the exit code: leave without that.
    os._exit(code)


def command() -> int:
    """Run the command in `sys.argv`; user errors become three lines and an exit code, never a traceback."""
    # SIGTERM too (a job scheduler, a closing terminal): clean up as for Ctrl-C.
    with listening():
        try:
            _check_arguments()
            code = int(called(app) or 0)
            if code != _INTERRUPTED:
                stop_if_asked()
            return code
        except (KeyboardInterrupt, typer.Abort):
            note("interrupted")
            return _INTERRUPTED
        except Exception as error:
            if not asked_to_stop():
                return _explained(error)
            note("interrupted")  # a library made an error of its own of it
            return _INTERRUPTED


def _explained(error: Exception) -> int:
    """Print what went wrong; returns the exit code."""
    if isinstance(error, AdumbraError):
        print_error(error)
        return error.exit_code
    if isinstance(error, _USAGE_ERROR):
        return _explain_usage(error)
    if isinstance(error, OSError):  # its text is left out: a library may have put a cell there
        reason = error.strerror or type(error).__name__
        print_error(
            InputError("files that can be read and written", reason, "check the paths, permissions and the disk")
        )
        return 2
    if isinstance(error, MemoryError):
        print_error(InputError("enough memory", "less", "use fewer dimensions, columns or categories"))
        return 2
    return _explain_defect(error)  # its text may quote a cell, so it is not shown unasked


# typer keeps its own copy of click or uses the installed one, by version; this is the class in either.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]


def _check_arguments() -> None:
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError("arguments in UTF-8", repr(argument), "write it in UTF-8, or rename the file") from None


def _explain_usage(error: Any) -> int:
    """Usage errors in the same three parts as all others."""
    message = error.format_message()
    if message.startswith("Usage:"):  # a command group without a command: its help is the answer
        for line in message.splitlines():
            note(line)
        return 2
    context = error.ctx
    place = "adumbra" if context is None else context.command_path
    usage = f"usage: {place}" if context is None else context.get_usage().replace("\n", " ")
    remedy = f"see {place} --help"
    commands = getattr(getattr(context, "command", None), "commands", None)
    if commands and "command" in message:
        near = [name for word in sys.argv[1:] for name in get_close_matches(word, commands, n=1)]
        remedy = f"{f'did you mean {near[0]}? It is ' if near else 'use '}one of: {', '.join(commands)}"
    print_error(InputError(" ".join(usage.split()), message.strip().rstrip("."), remedy))
    return 2


def _explain_defect(error: Exception) -> int:
    if os.environ.get("ADUMBRA_TRACEBACK"):
        traceback.print_exception(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "adumbra" in Path(f.filename).parts]
    place = f" at {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    notes = [line for line in getattr(error, "__notes__", ()) if line.startswith(PAID)]  # others may quote a cell
    spent = notes[0].removeprefix(PAID) if notes else "if a release was charged, adumbra ledger show tells"
    print_error(
        AdumbraError(
            "adumbra to work: this is a defect of it, not of your input",
            f"{type(error).__name__}{place}",
            f"report that line; {spent}. ADUMBRA_TRACEBACK=1 shows more, but may quote private cells",
        )
    )
    return 3


if __name__ == "__main__":
    run()
