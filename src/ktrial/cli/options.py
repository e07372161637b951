# SPDX-License-Identifier: Apache-2.0
"""Options and arguments that several verbs share, and how verbs write their results."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ktrial.cli.app import App
from ktrial.cli.completion import setting_words
from ktrial.kit.errors import BadInput
from ktrial.kit.plain_text import plain

F = TypeVar("F", bound=Callable[..., Any])


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds these options, in the order in which --help shows them."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def output_option(text: str) -> Callable[[F], F]:
    return click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help=text)


def seed_option(most: int = 2**63 - 1, what: str = "trial, to reproduce its run order") -> Callable[[F], F]:
    text = f"Seed of an earlier {what}."
    return click.option("--seed", type=click.IntRange(0, most), metavar="N", help=text)


parameter_option = click.option(
    "-p",
    "--parameter",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set this parameter of the benchmark. Repeatable.",
)
load_options = with_options(
    click.option(
        "--load-from",
        metavar="ssh:NAME",
        help="Load generator: the machine that sends the requests to the benchmark's server.  [the measured machine]",
    ),
    click.option(
        "--load-address",
        metavar="ADDRESS[:PORT]",
        help="Address at which the load generator reaches the server.  [from ssh's configuration]",
    ),
)
metric_option = click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="Number to read from CMD's output: NAME:lower=REGEX if lower is better, otherwise NAME:higher=REGEX. For JSON,"
    " write $.PATH instead of REGEX. Repeatable.  [time and memory of CMD]",
)
prepare_option = click.option(
    "--prepare",
    multiple=True,
    metavar="COMMAND",
    help="Command to run before each run of CMD, not measured, such as 'make clean'. Repeatable.",
)
warmup_option = click.option(
    "--warmup",
    type=click.IntRange(0, 1000),
    default=0,
    metavar="N",
    help="Run CMD N times first; these runs do not count.",
)
limit_option = click.option("--limit", metavar="TIME", help="Kill a run of CMD after TIME.  [1h]")
guard_option = click.option(
    "--guard",
    "guards",
    multiple=True,
    metavar="OUTCOME=SHARE",
    help="Outcome that must not get worse by more than SHARE. Repeatable.",
)
secondary_option = click.option(
    "--secondary", multiple=True, metavar="OUTCOME", help="Also judge this outcome. Repeatable."
)
margin_option = click.option(
    "--margin",
    metavar="SHARE",
    help="Treat smaller differences of the primary outcome as equivalent.  [2%; p95 5%, p99 10%]",
)
budget_option = click.option(
    "--budget",
    default="default",
    metavar="NAME|BLOCKS",
    help="Maximum number of blocks (rounds): quick (9), default (20), thorough (40) or a number.  [default]",
)
ARCHITECTURES = ("x86_64", "arm64")

arch_option = click.option(
    "--arch",
    type=click.Choice(ARCHITECTURES),
    default=ARCHITECTURES[0],
    show_default=True,
    help="Architecture of the kernel.",
)


def cpu_level(app: App) -> int | None:
    level = app.user_session.facts(("cpu.level",)).value("cpu.level")
    return level if isinstance(level, int) else None


_DURATION = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(ms|s|m|min|h)?"
_LONGEST_S = 30 * 86400.0
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}


def spelled_words(ctx: click.Context, _: click.Parameter | None, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command line; replace each file of /proc or /sys by the name of its knob."""
    if not isinstance(ctx.obj, App) or not any(word.startswith(("/proc/", "/sys/")) for word in given):
        return given
    from ktrial.tuning.origin.import_profile import spelled_setting

    return tuple(spelled_setting(word, ctx.obj.catalog.knobs) for word in given)


json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")


#: The key under which click's context stores the settings of --set until the argument is parsed.
_SETTINGS = "ktrial.settings"


def words_argument(metavar: str, complete: Callable[..., Any] = setting_words) -> Callable[[F], F]:
    """Return a decorator that adds the argument `words` of a verb that accepts other names besides settings."""
    return click.argument("words", shell_complete=complete, nargs=-1, metavar=metavar, callback=spelled_words)


def _note_settings(ctx: click.Context, _: click.Parameter, given: tuple[str, ...]) -> None:
    for word in given:
        if "=" not in word:
            raise BadInput(
                f"--set {word}: expected KNOB=VALUE", hint="add =VALUE, or name a profile or file without --set"
            )
    ctx.meta[_SETTINGS] = given


def settings_words(
    metavar: str = "PROFILE|FILE|KNOB=VALUE…", complete: Callable[..., Any] = setting_words, *, spell: bool = True
) -> Callable[[F], F]:
    """Return a decorator that adds an argument for settings, and the option --set. Both fill the argument `words`."""

    def words(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
        found = (*given, *ctx.meta.get(_SETTINGS, ()))
        return spelled_words(ctx, param, found) if spell else found

    return with_options(
        click.argument("words", shell_complete=complete, nargs=-1, metavar=metavar, callback=words),
        click.option(
            "--set",
            multiple=True,
            is_eager=True,
            expose_value=False,
            metavar="KNOB=VALUE",
            callback=_note_settings,
            help="Setting to use, the same as an argument KNOB=VALUE. Repeatable.",
        ),
    )


settings_argument = settings_words()


def _agree(ctx: click.Context, _: click.Parameter, given: bool) -> bool:
    if given and ctx.obj is not None:
        ctx.obj.agreed = True
    return given


def _wait_for_idle(ctx: click.Context, _: click.Parameter, given: bool) -> bool:
    if given and ctx.obj is not None:
        ctx.obj.when_idle = True
    return given


def yes_to(text: str) -> Callable[[F], F]:
    """Return a decorator that adds --yes with the help `text`; --yes also agrees to a run of more than half an hour."""
    return click.option("-y", "--yes", is_flag=True, callback=_agree, help=text)


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask before changing the machine.")
long_option = click.option(
    "-y",
    "--yes",
    is_flag=True,
    expose_value=False,
    callback=_agree,
    help="Do not ask before measuring for more than half an hour.",
)


def idle_option(text: str) -> Callable[[F], F]:
    return click.option("--when-idle", is_flag=True, expose_value=False, callback=_wait_for_idle, help=text)


when_idle_option = idle_option("Run only while the machine is otherwise idle; repeat disturbed runs.")
#: As in `ktrial.tuning.lasting.loaders`, which is loaded only when a command needs it.
LOADERS = ("grub", "systemd-boot", "limine", "refind", "extlinux", "zipl", "raspberry-pi")
dangerous_option = click.option("--yes-dangerous", is_flag=True, help="Include settings marked dangerous.")
security_option = click.option(
    "--yes-security",
    multiple=True,
    metavar="NAME",
    help="Kernel argument to add or remove although the change weakens security. Repeatable.",
)
#: Options of trials that boot this machine.
boots_options = with_options(
    yes_to("Do not ask before measuring for more than half an hour; allow the reboots that a trial needs."),
    security_option,
    click.option("--yes-kernel", is_flag=True, help="Boot a kernel even if no package owns it."),
)
_EVEN = "on battery, while others are logged in, or if a boot needs someone at the machine (a passphrase, a menu)"
boot_anyway_option = click.option("--anyway", is_flag=True, help=f"Reboot even {_EVEN}.")
_NOISY = "Start even if the noise is too high to detect the effect."
noise_anyway_option = click.option("--anyway", is_flag=True, help=_NOISY)
anyway_option = click.option(
    "--anyway", is_flag=True, help=f"{_NOISY} In trials that boot this machine: reboot even {_EVEN}."
)


def json_bytes(data: Any) -> bytes:
    from ktrial.kit import plain_json

    return plain_json.document(data, indent=2)


def write_json(data: Any) -> None:
    sys.stdout.write(json_bytes(data).decode())


def write_answer(as_json: bool, document: Callable[[], Any], text: Callable[[int], str]) -> None:
    """Print `document()` as JSON, or `text(width)` for people."""
    from ktrial.kit.tables import columns

    if as_json:
        write_json(document())
    else:
        write_text(text(columns()), pages=True)


def write_text(text: str, *, pages: bool = False) -> None:
    """Print a text for people, in colour on a terminal. With `pages`, a text longer than the screen gets a pager."""
    from ktrial.kit.console import coloured, is_live
    from ktrial.kit.streams import draw, spell

    can_control = is_live(sys.stdout, os.environ)
    if pages and is_long(text):
        text = spell(sys.stdout, text)
        click.echo_via_pager(coloured(text) if can_control else plain(text), color=can_control)
    elif can_control:
        draw(sys.stdout, coloured(spell(sys.stdout, text)))
    else:
        sys.stdout.write(text)


def is_long(text: str) -> bool:
    """Return whether the text is longer than the terminal and the user wants a pager (PAGER is not cat)."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("PAGER") in {"", "cat"}:
        return False
    return text.count("\n") >= os.get_terminal_size(sys.stdout.fileno()).lines


def seconds(text: str, option: str) -> float:
    """Return a duration such as `30s`, `10m` or `1h` in seconds.

    Raise BadInput unless the duration is above 0 and at most 30 days.
    """
    match = re.fullmatch(_DURATION, text.strip())
    value_s = float(match[1]) * _SECONDS[match[2]] if match is not None else 0.0
    if value_s == 0:
        raise BadInput(
            f"{option} {text}: not a duration above 0", hint="use a number and a unit, such as 30s, 10m or 1h"
        )
    if value_s > _LONGEST_S:
        raise BadInput(f"{option} {text}: longer than 30 days", hint=f"give at most 720h, or leave out {option}")
    return value_s


def _below_fps(_: click.Context, __: click.Parameter, given: str | None) -> float | None:
    if given is None:
        return None
    from ktrial.recordings.frames.statistics import below_rate

    try:
        value = float(given)
    except ValueError:
        raise BadInput(f"--below-fps {given}: not a number", hint="give frames per second, such as 30") from None
    return below_rate(value, "--below-fps")


def below_fps_option(text: str) -> Callable[[F], F]:
    return click.option("--below-fps", metavar="N", callback=_below_fps, help=text)


frame_logs_option = below_fps_option("Frame logs: count the frames below N fps.  [25]")


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
