# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel trial`: compare kernels, boot parameters and settings over boots of this machine, or in guests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import (
    boot_anyway_option,
    boots_options,
    dangerous_option,
    json_option,
    margin_option,
    secondary_option,
    seed_option,
    words_argument,
)
from ktrial.cli.shared.bench import TakesCommand, own_words
from ktrial.cli.shared.fail_on import fail_on_option
from ktrial.cli.shared.trial_options import (
    blocks_of,
    boot_consent,
    build_options,
    command_fields,
    guest_options,
    guest_shape,
    measured_options,
    recipe_of,
)
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.trial.protocol.file import TrialFile


@click.command(cls=TakesCommand, short_help="Compare kernels, kernel arguments and settings over boots.")
@words_argument("[FILE.toml | KERNEL…] [KNOB=VALUE…]")
@measured_options
@secondary_option
@click.option(
    "--boot", "boots", multiple=True, metavar="ARGUMENTS", help="Also try these kernel arguments. Repeatable."
)
@build_options
@click.option(
    "--fragment",
    "fragments",
    multiple=True,
    metavar="NAME|FILE",
    help="Also try a kernel with this fragment. Repeatable.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SYMBOL=VALUE…",
    help="Also try a kernel with these symbols. Repeatable.",
)
@click.option(
    "--patch",
    "patches",
    multiple=True,
    metavar="FILE|URL",
    help="Also try a kernel with this patch or series. Repeatable.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    help="Also try a kernel for TARGET: a CPU, an x86-64 level or native (this CPU). Use --mode kvm. Repeatable.",
)
@click.option("--guest", is_flag=True, help="Boot guests (virtual machines), not this machine.")
@click.option("--placebo", is_flag=True, help="Also try the baseline against itself, to show what chance does.")
@guest_options
@margin_option
@click.option(
    "--budget",
    metavar="NAME|BLOCKS",
    help="Maximum number of blocks (rounds): quick (9), default (20), thorough (40) or a number.  [default]",
)
@seed_option()
@click.option("--dry-run", is_flag=True, help="Print the protocol and check its kernels; build and boot nothing.")
@boots_options
@boot_anyway_option
@fail_on_option
@dangerous_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, /, words: tuple[str, ...], dry_run: bool, yes_dangerous: bool, as_json: bool, **options: Any
) -> int:
    """Compare kernels, kernel arguments and settings, with a boot of this machine or of a guest for each measurement.

    \b
    ktrial kernel trial 6.1.0-56-amd64 6.12.117+deb12-amd64 --suite wakeups-busy --yes
    ktrial kernel trial 6.1.0-56-amd64 6.12.117+deb12-amd64 --yes -- ./bench
    ktrial kernel trial trial.toml
    ktrial kernel trial 6.1.0-56-amd64 6.12.117+deb12-amd64 --guest --suite wakeups-busy
    ktrial kernel trial running sched:base_slice_ns=500000,3000000 --guest --suite wakeups-working --placebo
    ktrial kernel trial --tree linux.tar.xz --fragment hz-1000 --set PREEMPT=y --patch mine.patch --suite wakeups-busy
    ktrial kernel trial 6.12.117+deb12-amd64 --tree linux.tar.xz --config running --common guest --target native
        --mode kvm --suite quick --primary agent-messaging-pipe.time

    The last example compares a kernel for any CPU with the same kernel for this CPU, and with the distribution's.

    Without --tree, the first KERNEL is the baseline. KERNEL is `running` or a release that is installed here. This
    machine reboots for each measurement; --yes allows the reboots. With --guest, or an option that implies --guest
    (--tree, --mode, …), ktrial boots guests instead. KERNEL may then be an image (see `ktrial kernel boot`). In guests,
    ktrial measures only suites; to measure CMD with the kernel of an image, install that kernel first.

    With --tree, ktrial builds the baseline, and one more kernel for each --fragment, --set, --patch and --target.
    ktrial keeps these kernels for later trials, and also compares each KERNEL with the baseline. FILE.toml is a
    protocol that describes the whole trial and has a [guest] table. In exact guests the clock counts instructions;
    ktrial repeats the first boots of each configuration and requires identical results.
    """
    from ktrial.cli.shared.guest_trials import read_trial_file
    from ktrial.cli.shared.run_trial import run_file, show_protocol

    app: App = ctx.obj
    own = own_words(ctx)
    is_file = bool(words) and words[0].endswith(".toml")
    if is_file and own is not None:
        raise BadInput(f"cannot combine {words[0]} with a command after --", hint="leave out the file or the command")
    file = read_trial_file(ctx, words) if is_file else _trial_file_of(app, words, own, options)
    if dry_run:
        show_protocol(app, file, allow_dangerous=yes_dangerous)
        return 0
    consent = boot_consent(options)
    return run_file(app, file, allow_dangerous=yes_dangerous, profile=False, as_json=as_json, consent=consent)


def _trial_file_of(
    app: App, words: tuple[str, ...], own: tuple[str, ...] | None, options: Mapping[str, Any]
) -> TrialFile:
    from ktrial.cli.shared.guest_trials import arms_in_guests, built_arms, on_this_machine
    from ktrial.trial.protocol.file import DesignFile, GuestFile, TrialFile
    from ktrial.trial.protocol.from_words import pairs
    from ktrial.trial.protocol.read import check_trial_file

    settings = [word for word in words if "=" in word]
    kernels = [word for word in words if "=" not in word]
    recipe = recipe_of(options, "fragments", "settings", "patches", "targets")
    control = recipe or next(iter(kernels), "running")
    others = kernels if recipe is not None else kernels[1:]
    guest = None
    if options["guest"] or recipe is not None or guest_shape(options):
        guest = GuestFile(kernel=control, **guest_shape(options))
    built = built_arms(*(options[name] for name in ("fragments", "settings", "patches", "targets")))
    arms = arms_in_guests(app, others, built, settings, options["boots"], placebo=options["placebo"])
    if guest is None:
        arms = on_this_machine(arms, str(control))
    file = TrialFile(
        name="kernels" if guest is None else "guests",
        suite=options["suite"],
        **command_fields(own, options),
        parameters=pairs(options["given"], "-p"),
        primary=options["primary"],
        secondary=options["secondary"],
        margin=options["margin"],
        design=DesignFile(cap=blocks_of(options), seed=options["seed"]),
        guest=guest,
        arms=arms,
    )
    check_trial_file(file)
    return file
