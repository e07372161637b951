# SPDX-License-Identifier: Apache-2.0
"""`ktrial boot`: boot once with other kernel arguments or another kernel."""

from __future__ import annotations

from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.completion import boot_words
from ktrial.cli.group import TakesRemovals
from ktrial.cli.options import (
    LOADERS,
    boot_anyway_option,
    dangerous_option,
    json_option,
    security_option,
    yes_option,
)


@click.group(short_help="Boot once with other kernel arguments or another kernel.")
def command() -> None:
    """Boot once with other kernel arguments or another kernel.

    Later boots use the default entry again, unless `ktrial boot keep` makes the changes last.
    """


@command.command("try", cls=TakesRemovals, short_help="Boot once with other kernel arguments or another kernel.")
@click.argument("words", shell_complete=boot_words, nargs=-1, required=True, metavar="ARGUMENT|PROFILE|FILE|KERNEL…")
@click.option("--loader", type=click.Choice(LOADERS), help="Boot loader that boots this system, if there are several.")
@click.option(
    "--limit",
    type=click.IntRange(30, 3600),
    default=300,
    metavar="SECONDS",
    help="Time in which the boot must become healthy; otherwise the machine boots the default entry.  [300]",
)
@click.option("--kexec", is_flag=True, help="Start the entry from the running kernel, without firmware or loader.")
@click.option(
    "--guard",
    "guards",
    multiple=True,
    metavar="UNIT",
    help="systemd unit that must be active for the boot to count as healthy. Repeatable.",
)
@click.option("--no-reboot", is_flag=True, help="With --yes: write the entry, but leave the reboot to you.")
@boot_anyway_option
@click.option("--yes-kernel", is_flag=True, help="Boot a kernel even if no package owns it.")
@click.option("-y", "--yes", is_flag=True, help="Write the entry and reboot; without it, only show what would happen.")
@security_option
@json_option
@click.pass_obj
def try_(
    app: App,
    words: tuple[str, ...],
    loader: str | None,
    limit: int,
    kexec: bool,
    guards: tuple[str, ...],
    no_reboot: bool,
    anyway: bool,
    yes_kernel: bool,
    yes: bool,
    yes_security: tuple[str, ...],
    as_json: bool,
) -> int:
    """Show the plan of one boot with other kernel arguments or another kernel; with --yes, carry it out.

    With --yes, ktrial adds an entry that the boot loader starts once. Before the first attempt with each version of
    the boot loader, ktrial makes a rehearsal, a boot that fails on purpose. ktrial accepts arguments that
    `ktrial knobs boot:` lists or /etc/ktrial/knobs.d adds. -ARGUMENT removes an argument of the running kernel. Of a
    profile, only the kernel arguments count. KERNEL is an installed version or a path.

    \b
    sudo ./ktrial boot try nohz_full=2-9
    sudo ./ktrial boot try -quiet --yes
    sudo ./ktrial boot try 6.12.9-amd64 --yes
    """
    from ktrial.cli.shared.boots import BootConsent, BootWay, loader_of, try_boot

    consent = BootConsent(yes=yes, security=yes_security, kernel=yes_kernel, anyway=anyway)
    starter = loader_of(loader, kexec=kexec, reboots=not no_reboot)
    way = BootWay(loader=starter, limit_s=limit, guards=guards, reboots=not no_reboot)
    return try_boot(app, words, way, consent=consent, as_json=as_json)


@command.command(short_help="Show the prepared boot, and how the last attempt went.")
@json_option
@click.pass_obj
def status(app: App, as_json: bool) -> int:
    """Show the prepared boot, the running entry, and how the last attempt went."""
    from ktrial.cli.shared.boots import show_status

    return show_status(app, as_json=as_json)


@command.command(short_help="Make the arguments and kernel of a healthy boot permanent.")
@click.option("--loader", type=click.Choice(LOADERS), help="Boot loader that boots this system, if there are several.")
@yes_option
@dangerous_option
@security_option
@json_option
@click.pass_context
def keep(
    ctx: click.Context, loader: str | None, yes: bool, yes_dangerous: bool, yes_security: tuple[str, ...], as_json: bool
) -> int:
    """Write the arguments and kernel of a healthy `ktrial boot try` into GRUB's configuration (no other loader's)."""
    from ktrial.cli.shared.boots import end_kept, loader_to_keep, read_status, words_to_keep
    from ktrial.cli.verbs.keep import command as keep_settings

    app: App = ctx.obj
    session = app.root_session("keeping a boot")
    now = read_status(session)
    words, boot = words_to_keep(session, now)
    found: int = ctx.invoke(
        keep_settings,
        words=words,
        boot=boot,
        loader=loader_to_keep(now, loader),
        next_boot=True,
        yes=yes,
        yes_dangerous=yes_dangerous,
        yes_security=yes_security,
        as_json=as_json,
    )
    return found or end_kept(app, session, now)


@command.command(short_help="Remove the prepared boot.")
@json_option
@click.pass_obj
def undo(app: App, as_json: bool) -> int:
    """Remove the entry and the units that `ktrial boot try` wrote, and restore the boot loader's files."""
    from ktrial.cli.shared.boots import undo_boot

    return undo_boot(app, as_json=as_json)


@command.command(short_help="Watch another machine during its trial boots; power-cycle it if it hangs.")
@click.argument("host", metavar="HOST[:PORT]")
@click.option("--power", required=True, metavar="CMD", help="Command that power-cycles the machine (no shell).")
@click.option("--alive", metavar="CMD", help="Command that exits with 0 if HOST is up.  [connect to PORT or port 22]")
@click.option("--after", default="15min", metavar="TIME", help="Power-cycle after TIME without an answer.  [15min]")
@click.option("--times", type=click.IntRange(1, 100), default=3, metavar="N", help="Give up after N power cycles.  [3]")
@click.option("--console", type=click.Path(path_type=Path), metavar="FILE", help="Log file of HOST's serial console.")
@json_option
@click.pass_obj
def watch(
    app: App, host: str, power: str, alive: str | None, after: str, times: int, console: Path | None, as_json: bool
) -> int:
    """Watch another machine during its trial boots, and power-cycle it if it does not answer for TIME.

    --power names your own command for IPMI, a PDU or a smart plug. Run `ktrial boot watch` on a machine where that
    command works. ktrial records each power cycle and, with --console, the last lines of the serial console. TIME
    must be longer than a boot and its health check. If N power cycles in a row do not help, the exit status is 1.

    \b
    ./ktrial boot watch server --power 'ipmitool -H server-bmc chassis power cycle'
    """
    from ktrial.cli.shared.boot_watch import WatchedMachine, read_after, read_command, read_host, watch_machine
    from ktrial.tuning.boots.power import PowerTerms

    commands = read_command("--power", power), read_command("--alive", alive) if alive is not None else ()
    watched = WatchedMachine(*read_host(host), power=commands[0], alive=commands[1], console=console)
    return watch_machine(app, watched, PowerTerms(read_after(after), times), as_json=as_json)
