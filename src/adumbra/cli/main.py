"""The command line: parse, call, print.

Exit codes: 0 done, 1 the answer is no (verification failed, ledger exhausted or damaged), 2 bad usage or bad input,
3 a defect of adumbra, 130 interrupted. Results go to stdout, everything else to stderr.

Heavy libraries are imported inside the commands that need them: help answers at once, and an interrupt while they
load is handled like any other.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from adumbra.cli import answers, audits, evaluations, jobs, ledgers, utility
from adumbra.cli.output import emit, emit_json, note, print_error, print_table
from adumbra.core.errors import AdumbraError, InputError, Refused

__all__ = ["app", "command", "run"]

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
def verify(
    folder: Annotated[Path, typer.Argument(help="release folder", metavar="DIR")],
    public_key: Annotated[
        Path | None, typer.Option(help="the signer's Ed25519 public key (PEM); an unsigned folder then fails")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check a release folder against its card: hashes, no extra file, signature if signed."""
    from adumbra.core.release import open_folder, read_public_key

    found = open_folder(folder)
    problems = found.verify(None if public_key is None else read_public_key(public_key))
    if json:
        emit_json({"folder": str(folder), "verified": not problems, "signed": found.signed, "problems": problems})
    if problems:
        raise Refused("a folder as its card describes", "; ".join(problems), "get it again from its owner")
    if not json:
        state = "not signed"
        if found.signed:
            state = "signed by the key given" if public_key else "signed (pass --public-key to check by whom)"
        emit(f"verified: {len(found.card.files)} files as the card says, {state}\n")


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


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"--{k.replace('_', '-')} ({v.replace(' | None', '')})" for k, v in value.items())
    if isinstance(value, list):
        return ("\n" if any(", " in item for item in value) else ", ").join(value)
    return str(value)


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(help="private key to write; FILE.pub gets the public one", metavar="FILE")],
    json: JsonOption = False,
) -> None:
    """Make an Ed25519 key pair for signing releases. Keep FILE to yourself; give FILE.pub to analysts."""
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    public = key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
    public_file = file.with_name(file.name + ".pub") if file.name else file
    made: list[Path] = []
    try:
        for path, content, mode in ((file, private, 0o600), (public_file, public, 0o644)):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
                made.append(path)
                out.write(content)
    except OSError as error:
        for path in made:  # half a pair is no use
            path.unlink(missing_ok=True)
        raise InputError(
            "new files FILE and FILE.pub for the keys", f"{file} ({error.strerror})", "choose another name"
        ) from None
    if json:
        emit_json({"private_key": str(file), "public_key": str(public_file)})
    else:
        emit(f"private key in {file}, public key in {public_file}\n")


def run() -> None:
    """Entry point: run the command and leave with its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: nobody reads it
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for as long as the process lives
    code = command()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # Everything is written and cleaned up. A reading thread that a library left behind (a file given up half-way)
    # can abort the process while Python shuts down and so change the exit code: leave without that.
    os._exit(code)


def command() -> int:
    """Run the command in `sys.argv`; user errors become three lines and an exit code, never a traceback."""
    # Asked to stop (a job scheduler, a closing terminal): clean up as for Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _check_arguments()
        code = app(prog_name="adumbra", standalone_mode=False)
    except AdumbraError as error:
        print_error(error)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        note("interrupted")
        code = 130
    except _USAGE_ERROR as error:
        code = _explain_usage(error)
    except OSError as error:  # its text is left out: a library may have put a cell there
        reason = error.strerror or type(error).__name__
        print_error(
            InputError("files that can be read and written", reason, "check the paths, permissions and the disk")
        )
        code = 2
    except MemoryError:
        print_error(InputError("enough memory", "less", "use fewer dimensions, columns or categories"))
        code = 2
    except Exception as error:  # a defect; its text may quote a cell, so it is not shown unasked
        code = _explain_defect(error)
    return int(code or 0)


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
        note(message)
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
    print_error(
        AdumbraError(
            "adumbra to work: this is a defect of it, not of your input",
            f"{type(error).__name__}{place}",
            "report that line. A charge already in the ledger stays. ADUMBRA_TRACEBACK=1 shows more, but may quote "
            "private cells",
        )
    )
    return 3


if __name__ == "__main__":
    run()
