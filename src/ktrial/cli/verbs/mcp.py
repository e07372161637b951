# SPDX-License-Identifier: Apache-2.0
"""`ktrial mcp`: a server with tools for agents (Model Context Protocol)."""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Iterable
from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.options import seconds
from ktrial.kit.errors import BadInput, KtrialError, Refused, in_lower_case, quoting_hint

_EXTRA = "mcp>=2.3,<3"
_LONGEST_LIFE_S = 24 * 3600.0


@click.command(short_help="Serve tools for AI agents over stdin and stdout (MCP).")
@click.option(
    "--allow-writes",
    is_flag=True,
    help="Let agents also write what --knob, --protocol and --live allow, after a plan for each write.",
)
@click.option(
    "--knob",
    "knobs",
    multiple=True,
    metavar="PATTERN",
    help="Knob that agents may write, such as vm.swappiness or 'vm.*'. Needs --allow-writes. Repeatable.",
)
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Protocol file of a trial that agents may run; they name it without .toml. Needs --allow-writes. Repeatable.",
)
@click.option(
    "--live",
    metavar="OPTIONS",
    default="",
    help="Options of `ktrial live`, quoted as one text, with which agents may try settings on live work. Needs"
    " --allow-writes.",
)
@click.option(
    "--plan-life",
    default="10m",
    show_default=True,
    metavar="TIME",
    help="Time for which a token of `plan` is valid, at most 24h.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    allow_writes: bool,
    knobs: tuple[str, ...],
    protocols: tuple[Path, ...],
    live: str,
    plan_life: str,
) -> None:
    """Serve tools of the Model Context Protocol over stdin and stdout, to the AI agent that starts ktrial.

    Without --allow-writes agents can only read. With --allow-writes, each write needs a token from the tool `plan`. A
    token allows one write, exactly as planned. ktrial records every call in ~/.local/state/ktrial/mcp/audit.jsonl.

    Run `ktrial mcp` as an ordinary user, not as root. The command needs the extra `mcp`: pip install 'ktrial[mcp]'.

    \b
    ktrial mcp
    ktrial mcp --allow-writes --knob 'vm.*' --protocol nightly.toml
    """
    app: App = ctx.obj
    _refuse_root(app)
    life_s = seconds(plan_life, "--plan-life")
    if life_s > _LONGEST_LIFE_S:
        raise BadInput(f"--plan-life {plan_life}: longer than a day", hint="give at most 24h")
    given = {"--knob": knobs, "--protocol": protocols, "--live": live}
    if not allow_writes and (option := next((name for name, value in given.items() if value), None)):
        raise BadInput(f"{option} requires --allow-writes", hint=f"add --allow-writes, or leave out {option}")
    files = _by_name(protocols)
    if importlib.util.find_spec("mcp") is None:
        from ktrial.kit.own_code import install_step

        raise KtrialError(
            "cannot serve: the package mcp, which the extra `mcp` brings, is not installed",
            hint=install_step(_EXTRA, "mcp"),
        )
    from ktrial.agent.user_folders import state_folder
    from ktrial.cli.mcp.calls import Permissions
    from ktrial.cli.mcp.server import ServerOptions, serve

    allowed = Permissions(allow_writes, knobs, files, _words_of(live))
    audit = state_folder() / "mcp" / "audit.jsonl"
    serve(ServerOptions(_global_options(ctx), allowed, life_s, audit), app.clock)


def _refuse_root(app: App) -> None:
    """Raise Refused if this process is root: only a process of an ordinary user may read what an agent sends."""
    if os.geteuid() == 0 and app.on_this_machine:
        raise Refused(
            "cannot serve agents as root",
            hint="run `ktrial mcp` as an ordinary user; ktrial asks sudo for steps that need root",
        )


def _words_of(live: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(live))
    except ValueError as error:
        raise BadInput(
            f"cannot read --live {live!r}: {in_lower_case(str(error))}",
            hint=quoting_hint(error),
        ) from None


def _by_name(protocols: Iterable[Path]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for path in protocols:
        if path.stem in files:
            raise BadInput(
                f"--protocol {path}: another --protocol file is also named {path.stem}", hint="rename one of the files"
            )
        files[path.stem] = path.absolute()
    return files


def _global_options(ctx: click.Context) -> tuple[str, ...]:
    """Return the options before the verb, for the commands that the server starts."""
    assert ctx.parent is not None
    given = ctx.parent.params
    words = ["--no-sudo"] if given["no_sudo"] else []
    words += ["--host-keep-agent"] if given["keeps_agent"] else []
    words += [f"--catalog={Path(one).absolute()}" for one in given["catalogs"]]
    for name in ("machine_root", "machine_state"):
        words += [] if given[name] is None else [f"--{name.replace('_', '-')}={Path(given[name]).absolute()}"]
    store = given["store"]
    if store is not None:
        words.append(f"--store={store if '://' in store else Path(store).absolute()}")
    return (*words, *([] if given["host"] is None else [f"--host={given['host']}"]))
