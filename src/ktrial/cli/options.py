# SPDX-License-Identifier: Apache-2.0
"""Options, arguments and questions that several verbs share, and how data is written."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ktrial.cli.app import App
from ktrial.cli.completion import setting_words
from ktrial.kit.errors import BadInput

ARCHITECTURES = ("x86_64", "arm64")

arch_option = click.option(
    "--arch",
    type=click.Choice(ARCHITECTURES),
    default=ARCHITECTURES[0],
    show_default=True,
    help="Architecture of the kernel, as kbuild names it.",
)


def cpu_level(app: App) -> int | None:
    """Return the x86-64 level of the CPU; None if it could not be told."""
    level = app.user_session.facts(("cpu.level",)).value("cpu.level")
    return level if isinstance(level, int) else None


F = TypeVar("F", bound=Callable[..., Any])
_DURATION = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ms|s|m|min|h)?"
_LONGEST_S = 30 * 86400.0
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}

json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
settings_argument = click.argument("words", shell_complete=setting_words, nargs=-1, metavar="PROFILE|FILE|KNOB=VALUE…")
yes_option = click.option("-y", "--yes", is_flag=True, help="Answer yes to ordinary prompts.")
dangerous_option = click.option("--yes-dangerous", is_flag=True, help="Include settings marked dangerous.")

anyway_option = click.option("--anyway", is_flag=True, help="Start even if the noise is too high to detect the effect.")


def json_bytes(data: Any) -> bytes:
    from ktrial.kit import plain_json

    return plain_json.document(data, indent=2)


def write_json(data: Any) -> None:
    sys.stdout.write(json_bytes(data).decode())


def seconds(text: str, option: str) -> float:
    """`30s`, `10m`, `1h` in seconds."""
    match = re.fullmatch(_DURATION, text.strip())
    value_s = float(match[1]) * _SECONDS[match[2]] if match is not None else 0.0
    if value_s == 0:
        raise BadInput(f"{option} {text}: not a duration", hint="write for example 30s, 10m or 1h")
    if value_s > _LONGEST_S:
        raise BadInput(
            f"{option} {text}: longer than 30 days", hint="without it a setting stays until reverted or reboot"
        )
    return value_s


def _below_fps(_: click.Context, __: click.Parameter, given: str | None) -> float | None:
    if given is None:
        return None
    from ktrial.recordings.frames.statistics import below_rate

    try:
        value = float(given)
    except ValueError:
        raise BadInput(f"--below-fps {given}: no number", hint="frames a second, for example 30") from None
    return below_rate(value, "--below-fps")


below_fps_option = click.option(
    "--below-fps", metavar="N", callback=_below_fps, help="Frame logs: rate below which a frame is slow.  [25]"
)


def is_terminal() -> bool:
    """Return whether ktrial can prompt the user."""
    return sys.stdin.isatty() and sys.stderr.isatty()
