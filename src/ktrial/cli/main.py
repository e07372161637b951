# SPDX-License-Identifier: Apache-2.0
"""Parses the command line, runs one verb, and turns errors into exit statuses."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import itertools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import click

from ktrial import __version__
from ktrial.cli import verbs
from ktrial.cli.called import as_called, on_host, take_called
from ktrial.cli.group import FolderGroup
from ktrial.kit.errors import AgentError, BadInput, Interrupted, KtrialError
from ktrial.kit.plain_text import plain
from ktrial.kit.startup import defer_modules, load_msgspec
from ktrial.kit.streams import has_text, plain_stream

#: Verbs by purpose; the first group is for newcomers.
_GROUPS = {
    "Start here": ("demo", "doctor", "try", "apply", "revert", "compare"),
    "Tune": (
        "review",
        "tune",
        "search",
        "explain",
        "why",
        "knobs",
        "profiles",
        "profile",
        "plan",
        "with",
        "verify",
        "status",
        "ui",
        "confirm",
        "recover",
    ),
    "Make it last": ("keep", "export", "drift", "boot"),
    "Trials": ("live", "trial", "schedulers", "fleet", "ladder", "blame", "suggest", "power", "retest", "ledger"),
    "Measure": ("ab", "bench", "noise", "frames", "runs", "show", "import", "export-runs", "history", "facts", "state"),
    "Report and prove": ("report", "publish", "claim", "bundle", "recheck", "reparse"),
    "Watch, and kernels": ("watch", "diagnose", "watermarks", "kernel"),
    "This tool": ("tools", "mcp", "completion", "man", "install-recovery", "uninstall"),
}
#: What `ktrial` without a command does on a terminal.
_BARE = ("--no-sudo", "status", "--glance")


class Verbs(FolderGroup):
    """All verbs, listed by group."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs by group, and verbs without a group last."""
        names = self.list_commands(ctx)
        others = sorted(set(names) - {name for group in _GROUPS.values() for name in group})
        width = max(map(len, names))
        for title, group in {**_GROUPS, "Others": tuple(others)}.items():
            rows = [
                (name.ljust(width), command.get_short_help_str(formatter.width - width - 6))
                for name in group
                if (command := self.get_command(ctx, name)) is not None
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb. Unless only its help is shown, first set up lazy imports, so that the verb starts faster."""
        if not set(ctx.help_option_names) & set(args):
            load_msgspec()
            defer_modules()
        return super().resolve_command(ctx, args)


@click.group(
    cls=Verbs,
    package=verbs,
    epilog="Run `ktrial COMMAND --help` for the options of a command.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, "-V", "--version", prog_name="ktrial", message="%(prog)s %(version)s")
@click.option("--no-sudo", is_flag=True, help="Never ask for root; fail if a command needs root.")
@click.option(
    "--catalog",
    "catalogs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Also load knobs/, profiles/, benchmarks/ and suites/ from FOLDER. Repeatable.",
)
@click.option(
    "--store",
    envvar="KTRIAL_STORE",
    metavar="FILE|URL",
    help="Store of the results, a file or postgresql://USER@HOST/NAME.  [KTRIAL_STORE, or"
    " ~/.local/state/ktrial/results.db]",
)
@click.option(
    "--host",
    metavar="ssh:NAME|adb[:SERIAL]|guest:KERNEL|exact:KERNEL",
    help="Work on another machine (ssh), on a phone (adb), or in a VM with KERNEL; exact makes time deterministic.",
)
@click.option(
    "--host-keep-agent",
    "keeps_agent",
    is_flag=True,
    help="Leave the agent, ktrial's helper program, on the other machine or phone.  [removed at the end]",
)
@click.option("--machine-root", hidden=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--machine-state", hidden=True, type=click.Path(readable=False, path_type=Path))
@click.pass_context
def cli(
    ctx: click.Context,
    no_sudo: bool,
    catalogs: tuple[Path, ...],
    store: str | None,
    host: str | None,
    keeps_agent: bool,
    machine_root: Path | None,
    machine_state: Path | None,
) -> None:
    """Put kernel tweaks on trial: see what is tuned, measure what helps, apply it, and undo it."""
    from ktrial.cli.app import App

    if keeps_agent and host is None:
        raise BadInput(
            "--host-keep-agent requires --host ssh:NAME or adb",
            hint="add --host ssh:NAME or --host adb, or leave out --host-keep-agent",
        )
    ctx.obj = App(
        may_ask=not no_sudo,
        machine_root=machine_root,
        machine_state=machine_state,
        catalogs=catalogs,
        store=store,
        host=host,
        keeps_agent=keeps_agent,
    )
    ctx.call_on_close(ctx.obj.close)
    if ctx.obj.host is not None:
        ctx.obj.host.check_verb(ctx.invoked_subcommand)


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run one command and return its exit status; report every error as one message."""
    status = 0
    argv = argv or _BARE if out.isatty() else argv
    called, host = take_called(), _host_of(argv)
    out, err = (plain_stream(stream, _speller(called, host, stream)) for stream in (out, err))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = _run(argv, out, err)
            out.flush()
        except BrokenPipeError:
            _discard(out)
            return status
        except OSError as error:
            parts = (error.filename, error.strerror or error)
            failure = KtrialError(": ".join(str(part) for part in parts if part))
            if error.filename is not None:  # otherwise it may be the output that fails
                _answer_in_json(argv, failure, KtrialError.exit_status, out)
            _discard(out)
            if error.errno == errno.EIO and error.filename is None:  # the terminal is gone
                return _interrupted(KeyboardInterrupt(signal.SIGHUP), err)[1]
            report(failure, err)
            return KtrialError.exit_status
    return status


def _host_of(argv: Sequence[str]) -> str | None:
    """Return the argument of --host; None without it, or if the command line cannot be parsed."""
    if not any(word.startswith("--host") for word in argv):
        return None
    try:
        host = cli.make_parser(click.Context(cli)).parse_args(list(argv))[0].get("host")
    except click.UsageError:
        return None
    return host if isinstance(host, str) else None


def _speller(called: str | None, host: str | None, stream: TextIO) -> Callable[[str], str] | None:
    """Return a function that spells commands as ktrial was called, with `host`; None if no command changes.

    Output to pipes and files gets no path of this machine.
    """
    spells = []
    if host is not None:
        spells.append(on_host(host, cli.list_commands(click.Context(cli))))
    if called is not None and (called == "ktrial" or stream.isatty()):
        spells.append(as_called(called, cli.list_commands(click.Context(cli))))
    if not spells:
        return None
    return lambda text: functools.reduce(lambda told, spell: spell(told), spells, text)


def _run(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Run one command; report an error and return the exit status."""
    try:
        result = cli.main(args=list(argv), prog_name="ktrial", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except KtrialError as failure:
        error, status = failure, failure.exit_status
        report(error, err)
    except click.ClickException as failure:
        error, status = _usage_error(failure, err), 2
    except click.exceptions.Exit as stop:
        return int(stop.exit_code)
    except (click.Abort, KeyboardInterrupt) as stop:
        error, status = _interrupted(stop, err)
    except SystemExit:
        if sys.stdout is out:
            raise
        raise BrokenPipeError from None  # click replaced the stream and exited by itself
    _answer_in_json(argv, error, status, out)
    return status


def _usage_error(failure: click.ClickException, err: TextIO) -> KtrialError:
    """Print what is wrong with a command line, and return it as an error of ktrial."""
    own = {name for option in cli.params for name in option.opts if not getattr(option, "hidden", False)}
    ctx = failure.ctx if isinstance(failure, click.UsageError) else None
    path = ctx.command_path if ctx is not None else "ktrial"
    if not isinstance(failure, click.NoSuchOption) or " " not in path or failure.option_name not in own:
        failure.show(file=err)
        return BadInput(failure.format_message(), hint=f"{path} --help")
    verb = path.partition(" ")[2]
    error = BadInput(f"{failure.option_name} must come before {verb}", hint=f"ktrial {failure.option_name} … {verb} …")
    report(error, err)
    return error


def _interrupted(stop: BaseException, err: TextIO) -> tuple[KtrialError, int]:
    """Report what ended the command; return it as an error with its exit status.

    Click wraps KeyboardInterrupt in Abort.
    """
    from ktrial.kit import interruption

    cause = stop.__cause__ if isinstance(stop, click.Abort) else stop
    number = cause.args[0] if cause is not None and cause.args else signal.SIGINT
    words = interruption.words(number)
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"ktrial: {words}", file=err)
    return Interrupted(words), interruption.status(number)


def _answer_in_json(argv: Sequence[str], error: KtrialError, status: int, out: TextIO) -> None:
    """Write the error as `ktrial.error/1` if the command line asks for JSON and no document was written yet."""
    if "--json" not in itertools.takewhile(lambda word: word != "--", argv) or has_text(out):
        return
    from ktrial.kit import plain_json

    fields = {"schema": "ktrial.error/1", "error": plain(error.message), "status": status}
    if isinstance(error, AgentError):
        fields["kind"] = error.kind
    document = plain_json.document({**fields, "next": plain(error.hint) if error.hint else None}, indent=2)
    try:
        out.write(document.decode())
        out.flush()
    except OSError:  # the reader is gone, or the disk is full; the exit status still reports the error
        _discard(out)


def _discard(out: TextIO) -> None:
    """Redirect an output stream that no longer accepts output to /dev/null."""
    with contextlib.suppress(io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


def report(error: KtrialError, err: TextIO) -> None:
    """Print the message, and the hint on a line of its own."""
    print(f"ktrial: {plain(error.message)}", file=err)
    if error.hint:
        print(f"  next: {plain(error.hint)}", file=err)
