# SPDX-License-Identifier: Apache-2.0
"""`ktrial blame`: which of several settings did it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.measuring import TakesCommand, check_output, own_words
from ktrial.cli.names import setting_words
from ktrial.cli.options import dangerous_option, json_option
from ktrial.cli.trial_options import guest_options, measured_options
from ktrial.cli.wiring import App
from ktrial.domain.errors import BadInput

if TYPE_CHECKING:
    from ktrial.domain.trial_file import ArmFile, GuestFile, TrialFile


@click.command(cls=TakesCommand, short_help="Find which of several settings did it.")
@click.argument("words", shell_complete=setting_words, nargs=-1, metavar="[PROFILE|KNOB=VALUE…]")
@click.option("--profile", "profiles", multiple=True, metavar="PROFILE", help="All settings of a profile.")
@measured_options
@click.option("--also", "secondary", multiple=True, metavar="OUTCOME", help="A further outcome to be looked at.")
@click.option(
    "--known",
    type=click.Choice(["better", "worse", "either"]),
    help="What all of them together do, where that is known; else it is shown first. `either` looks on both sides.",
)
@click.option("--detect", default="5%", show_default=True, metavar="SHARE", help="The effect that is worth finding.")
@click.option("--margin", metavar="SHARE", help="Smaller differences do not matter.  [2%]")
@click.option("--budget", type=click.IntRange(7, 60), default=25, show_default=True, help="Blocks of a trial.")
@click.option("--cap", type=click.IntRange(12, 72), default=72, show_default=True, help="Blocks of a screening.")
@click.option("--time", "time_", metavar="TIME", help="End each trial where no further block fits into it.")
@click.option("--settle", metavar="TIME", help="Wait after every switch.  [as the settings want]")
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable of the benchmark.")
@click.option("--guest", is_flag=True, help="In guests: every visit is a boot.")
@click.option("--boot", "boots", multiple=True, metavar="WORDS", help="In guests: words for the command line.")
@click.option("--kernel", metavar="KERNEL", help="In guests: the kernel.  [running]")
@guest_options
@click.option("--seed", type=click.IntRange(0, 2**62), metavar="N", help="Draw the same orders again.")
@click.option("--fresh", is_flag=True, help="Begin anew where an interrupted one could be gone on with.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A picture: .svg or .png.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--dry-run", is_flag=True, help="Say what is told apart, and measure nothing.")
@dangerous_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], profiles: tuple[str, ...], **options: Any) -> int:
    """Find out which of several settings made the difference that all of them together make.

    \b
    ktrial blame --profile ktweak --suite messaging
    ktrial blame vm.swappiness=10 vm.dirty_ratio=5 thp:enabled=never --known worse --suite memory-pressure
    ktrial blame --env MALLOC_ARENA_MAX=1 --env OMP_NUM_THREADS=1 -- ./my-test
    ktrial blame --boot nohz=off --boot highres=off --boot threadirqs --suite wakeups-busy

    Each block runs a random half of the settings and the other half, so every block measures every setting; who is
    suspected is tried by a trial of its own. The same command goes on with what was interrupted.
    """
    from ktrial.cli.blaming import Budgets, picture, question_of, run_blame, show, with_left_out
    from ktrial.cli.comparison_file import write_file
    from ktrial.cli.coursing import taken_up
    from ktrial.report.blame import question_text
    from ktrial.report.terminal import columns
    from ktrial.services.blame import follow

    app: App = ctx.obj
    output: Path | None = options["output"]
    if output is not None and output.suffix.lower() not in {".svg", ".png"}:
        raise BadInput(f"-o {output}: no kind of picture", hint="end its name in .svg or .png")
    check_output(output, force=options["force"])
    arm, template = _asked(app, (*profiles, *words), own_words(ctx), options)
    dangerous = options["yes_dangerous"]
    question, left_out = question_of(
        app,
        arm,
        template,
        Budgets(options["known"], options["cap"], options["budget"]),
        options["boots"],
        seed=options["seed"],
        allow_dangerous=dangerous,
    )
    sys.stderr.write(question_text(question, left_out, width=columns()))
    if options["dry_run"]:
        return 0
    question, parts = (question, []) if options["fresh"] else taken_up(app, question, template.name, follow)
    found = run_blame(app, question, parts, allow_dangerous=dangerous, as_json=options["as_json"])
    if found is None:
        from ktrial.cli import interruption

        app.say(f"{interruption.words(app.interrupts.number)}; the same command goes on with it")
        return interruption.status(app.interrupts.number)
    found = with_left_out(found, left_out)
    show(found, as_json=options["as_json"])
    if output is not None and found.screenings:
        write_file(output, picture(found, output.suffix.lower()))
        app.say(f"written: {output}")
    return 0


def _asked(
    app: App, words: tuple[str, ...], own: tuple[str, ...] | None, options: dict[str, Any]
) -> tuple[ArmFile, TrialFile]:
    """All that was named as one arm, and what is measured."""
    import msgspec

    from ktrial.cli.trial_options import template_file
    from ktrial.domain.trial_file import CONTROL, ArmFile
    from ktrial.services.trial_words import arms_of, default_suite, pair

    environment = dict(pair(one, "--env") for one in options["environment"])
    guest = _guest(options)
    boots = options["boots"]
    arms = arms_of(words, app.catalog, environment, placebo=False) if words or not boots else {"all": ArmFile()}
    if len(arms) > 2:
        raise BadInput("a setting has one value here", hint="`ktrial try` tries several values of one knob")
    arm = next(arm for name, arm in arms.items() if name != CONTROL)
    arm = msgspec.structs.replace(arm, boot=tuple(word for text in boots for word in text.split()))
    number = len(arm.set) + len(arm.environment) + len(boots)
    named = [word for word in words if "=" not in word] or [f"{number}-settings"]
    return arm, template_file(
        f"blame-{'+'.join(named)}"[:40].rstrip("-._+"),
        own,
        options,
        {},
        suite=options["suite"] or (default_suite(words, app.catalog) if own is None else None),
        parameters=dict(pair(one, "-p") for one in options["given"]),
        primary=options["primary"],
        secondary=options["secondary"],
        arms={},
        guest=guest,
    )


def _guest(options: dict[str, Any]) -> GuestFile | None:
    """Where it is asked for, the guests that everything is tried in."""
    from ktrial.cli.trial_options import guest_shape, refuse_shape
    from ktrial.domain.trial_file import GuestFile

    kernel = {"kernel": options["kernel"]} if options["kernel"] else {}
    if options["guest"] or options["boots"] or kernel:
        return GuestFile(**kernel, **guest_shape(options))
    refuse_shape(options)
    return None
