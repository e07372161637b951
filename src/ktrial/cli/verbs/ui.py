# SPDX-License-Identifier: Apache-2.0
"""`ktrial ui`: one screen with the live state of this machine."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable

import click

from ktrial.cli.app import App
from ktrial.kit.errors import BadInput, KtrialError, Refused

_EXTRA = "textual>=8,<9"


@click.command(short_help="Show trials, settings and verdicts live on one screen.")
@click.pass_obj
def command(app: App) -> None:
    """Show on one screen what is applied and kept, the trial under way, and the last verdicts.

    ktrial reads the state every 5 seconds, and at once if you press `r`. `w` watches pressure and stutters, `y` asks
    for a knob and shows who set it, `s` asks and then stops the running trial, `q` quits. Only `s` changes anything.

    `ktrial ui` needs the extra `ui`: pip install 'ktrial[ui]'. Only root can trace stalls and read what is applied.
    """
    if app.host is not None or not app.on_this_machine:
        option = "--machine-root" if app.host is None else "--host"
        raise Refused("cannot show another machine", hint=f"leave out {option}")
    refuse_terminal()
    refuse_without_extra()
    from ktrial.cli.shared.live_screen import LiveScreen
    from ktrial.cli.shared.live_state import LiveState, WatchThread

    watches: list[WatchThread] = []

    def start_watch(shown: Callable[[str], None], width: Callable[[], int]) -> WatchThread:
        # The watch has its own session, so that the screen's session can answer meanwhile.
        watches.append(WatchThread(lambda: App(may_ask=False), shown, width))
        return watches[-1]

    LiveScreen(LiveState(app), start_watch).run(mouse=False)
    for watch in watches:
        watch.join()


def refuse_terminal() -> None:
    """Raise BadInput if ktrial cannot draw a screen on this terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("cannot draw a screen: stdin or stdout is not a terminal", hint="run `ktrial status`")
    if os.environ.get("TERM", "dumb") in {"", "dumb"}:
        raise BadInput(
            "cannot draw a screen: TERM is dumb or not set",
            hint="set TERM, or run `ktrial status`",
        )


def refuse_without_extra() -> None:
    """Raise KtrialError if Textual is missing."""
    if importlib.util.find_spec("textual") is None:
        from ktrial.kit.own_code import install_step

        raise KtrialError(
            "cannot draw a screen: Textual, which the extra `ui` brings, is not installed",
            hint=install_step(_EXTRA, "ui"),
        )
