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
import faulthandler
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from adumbra.cli import answers, audits, evaluations, keys, ledgers
from adumbra.cli import jupa_command as utility
from adumbra.cli import release_command as jobs
from adumbra.cli.output import HtmlOption, check_new, emit, note, print_error, show
from adumbra.cli.usage import USAGE_ERROR, explained_usage
from adumbra.common.errors import PAID, AdumbraError, InputError, is_panic
from adumbra.common.interrupts import asked_to_stop, listening, stop_if_asked

__all__ = ["Panicked", "app", "called", "command", "run", "silence"]


# What libraries written in other languages do at the edge of a command: panic, and write to stderr by themselves.


class Panicked(Exception):
    """A library gave up. Its own exception is no `Exception`, and would pass everything that explains errors."""


def called(app: Callable[..., Any]) -> Any:
    """Run the commands' application; a panic comes out as an ordinary error, without its text."""
    try:
        return app(prog_name="adumbra", standalone_mode=False)  # whatever started it
    except BaseException as error:
        if not is_panic(error):
            raise
        panicked = Panicked(type(error).__name__).with_traceback(error.__traceback__)
        for said in getattr(error, "__notes__", ()):
            panicked.add_note(said)
        raise panicked from None


def silence() -> None:
    """Let only Python write to stderr from now on: a library that panics writes there what it met, maybe a cell.

    Not where whoever runs the command has asked for such reports.
    """
    if os.environ.get("ADUMBRA_TRACEBACK") or faulthandler.is_enabled():
        return
    try:
        place = sys.stderr.fileno()
        own = os.dup(place)
    except (OSError, ValueError):  # closed, or no file
        return
    sys.stderr.flush()
    stream = os.fdopen(own, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, place)
    os.close(nowhere)
    sys.stderr = stream


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
def mechanisms(json: JsonOption = False, html: HtmlOption = None) -> None:
    """The catalogue: what each mechanism releases, protects and can answer."""
    from adumbra.mechanisms.catalogue import catalogue_document

    check_new(html, "--html")
    show(catalogue_document(), json=json, html=html)


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
    if isinstance(error, USAGE_ERROR):
        found = explained_usage(error)
        if isinstance(found, InputError):
            print_error(found)
        else:
            for line in found:
                note(line)
        return 2
    if isinstance(error, OSError):  # its text is left out: a library may have put a cell there
        reason = error.strerror or type(error).__name__
        print_error(
            InputError("files that can be read and written", reason, "check the paths, permissions and the disk")
        )
        return 2
    if isinstance(error, MemoryError):
        print_error(
            InputError("memory for this job", "too little of it", "use fewer dimensions, columns or categories")
        )
        return 2
    return _explain_defect(error)  # its text may quote a cell, so it is not shown unasked


def _check_arguments() -> None:
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError("arguments in UTF-8", repr(argument), "write it in UTF-8, or rename the file") from None


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
