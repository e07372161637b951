# SPDX-License-Identifier: Apache-2.0
"""`ktrial ladder`: compare profiles stacked in tiers."""

from __future__ import annotations

import sys
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import profile_names
from ktrial.cli.options import boots_options, secondary_option
from ktrial.cli.shared.bench import TakesCommand, own_words, refuse_faulty
from ktrial.cli.shared.command_environment import env_option
from ktrial.cli.shared.fail_on import fail_on_option
from ktrial.cli.shared.trial_options import (
    boot_consent,
    build_options,
    designed_options,
    guest_options,
    measured_options,
    protocol_file,
)
from ktrial.kit.errors import BadInput, Refused


@click.command(cls=TakesCommand, short_help="Compare stacked profiles, tier by tier.")
@click.argument("name", shell_complete=profile_names, metavar="LADDER|FILE")
@measured_options
@env_option
@secondary_option
@click.option(
    "--guest", is_flag=True, help="Measure a suite in guests (virtual machines), with a boot for each measurement."
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="TIER=KERNEL",
    help="Kernel to boot for a tier; on this machine, an installed kernel. Repeatable.",
)
@click.option(
    "--boots", is_flag=True, help="Reboot this machine for each measurement; also run tiers that add kernel arguments."
)
@build_options
@click.option(
    "--patch",
    "patches",
    multiple=True,
    metavar="TIER=FILE|URL",
    help="With --tree: patch to apply to the kernel of a tier and of the tiers above it. Repeatable.",
)
@guest_options
@boots_options
@fail_on_option
@designed_options
@click.pass_context
def command(ctx: click.Context, /, name: str, **options: Any) -> int:
    """Compare tiers of settings: each with the tier below it and with the control (lowest tier or unchanged machine).

    \b
    ktrial ladder arashi --suite arashi --primary schbench.wakeup-p99
    ktrial ladder ./mine.toml -- ./my-test
    ktrial ladder ./mine.toml --boots --suite wakeups-busy --yes
    ktrial ladder arashi --guest --kernel T0=6.12.117+deb12-amd64 --kernel T1=./t1 --suite wakeups-busy
    ktrial ladder arashi --tree linux.tar.xz --mode emulated --suite wakeups-busy

    LADDER is a profile with tiers (docs/ladder.md). Each block (round) runs all tiers in random order. On this machine
    ktrial skips tiers that need a boot or a build. To run them, add --boots for kernel arguments or --kernel for an
    installed kernel; ktrial then reboots for each measurement. In guests, tiers run on the kernels that you name or
    that ktrial builds (--tree). Tiers that change the compiler need --mode emulated or kvm.
    """
    from ktrial.cli.shared import ladder as command_line
    from ktrial.cli.shared.run_trial import run_file, show_protocol
    from ktrial.kit.tables import columns
    from ktrial.reports.ladder import tiers_text
    from ktrial.studies.ladder.ladder import ladder_of, left_out, possible

    app: App = ctx.obj
    own = own_words(ctx)
    if not app.may_run_trials:
        raise Refused("trials run on machines, not in folders", hint="leave out --machine-root")
    catalog, (ladder_name,) = app.catalog_for((name,))
    kernels, built = command_line.kernels_of_tiers(options), command_line.built_tiers(options)
    ladder = ladder_of(ladder_name, catalog, kernels, built)
    suite = options["suite"] or (ladder_name if own is None and ladder_name in app.suites else None)
    if suite is None and own is None:
        refuse_faulty(app, ladder_name)
        raise BadInput("nothing to measure", hint=f"add --suite NAME, or a command:  ktrial ladder {name} -- CMD")
    template = protocol_file(f"ladder-{ladder_name}"[:60], suite, own, options, secondary=options["secondary"], arms={})
    if kernels is not None:
        template, ladder = command_line.over_boots(template, ladder, kernels, options)
    if built is not None:
        ladder = command_line.with_own_kernels(app, ladder, template)
        if options["dry_run"]:
            return command_line.show_built(app, ladder, template)
    dangerous, profile = options["yes_dangerous"], not options["no_profile"]
    plans = command_line.planned(app, ladder, template, catalog, allow_dangerous=dangerous)
    ladder = possible(ladder, plans)
    file = command_line.trial_of(ladder, template, boots=kernels is not None)
    tiers = tiers_text(ladder.not_run, left_out(ladder, plans), width=columns())
    if options["dry_run"]:
        sys.stderr.write(tiers)
        show_protocol(app, file, allow_dangerous=dangerous)
        return 0
    try:
        return run_file(
            app,
            file,
            allow_dangerous=dangerous,
            profile=profile,
            as_json=options["as_json"],
            anyway=options["anyway"],
            consent=boot_consent(options),
        )
    finally:
        sys.stderr.write(tiers)
