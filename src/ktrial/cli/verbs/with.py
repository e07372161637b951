# SPDX-License-Identifier: Apache-2.0
"""`ktrial with`: apply settings while a command runs."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import dangerous_option, settings_words
from ktrial.cli.shared.bench import TakesCommand, own_words, program_of
from ktrial.kit.errors import AgentError, BadInput, KtrialError, NoSuchTransaction, Refused, StalePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktrial.machine.ports import Machine
    from ktrial.machine.transactions import Applied
    from ktrial.tuning.catalog.model import Catalog
    from ktrial.tuning.plans.model import Plan

#: The exit status after a signal is this plus the number of the signal.
_BY_SIGNAL = 128
#: Number of attempts to plan and apply while other programs change the machine.
_ATTEMPTS = 3


@click.command(cls=TakesCommand, short_help="Apply settings while a command runs.")
@settings_words("PROFILE|FILE|KNOB=VALUE… -- CMD…")
@click.option("--anyway", is_flag=True, help="Run CMD even if ktrial cannot apply the settings.")
@click.option("-q", "--quiet", is_flag=True, help="Report only problems.")
@dangerous_option
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], anyway: bool, quiet: bool, yes_dangerous: bool) -> int:
    """Apply settings, run CMD on this terminal, and restore the old values when CMD ends.

    ktrial restores the values however CMD or ktrial ends. Several `ktrial with` commands may run at once and end in any
    order. The exit status is CMD's own, or 128+N if signal N ended CMD.

    \b
    ktrial with vm.swappiness=10 -- make -j8
    ktrial with micro-stutter -- %command%      # in the launch options of a game in Steam
    """
    from ktrial.tuning.plans.resolve import check_words
    from ktrial.tuning.plans.transaction_text import held_text

    app: App = ctx.obj
    own = own_words(ctx)
    if not own:
        raise BadInput("no command after --", hint="ktrial with PROFILE -- CMD")
    if app.host is not None:
        raise Refused("commands of `ktrial with` run on this machine only", hint="leave out --host")
    argv = (str(program_of(own[0])), *own[1:])
    catalog, names = app.catalog_for(words)
    check_words(names, catalog)
    app.share_machine()
    from ktrial.tuning.plans.confirm import held_back

    with held_back() as presses:
        try:
            root = _root(app, words)
            applied, skipped = _begin(root, partial(_plan, root, catalog, names, dangerous=yes_dangerous))
        except KtrialError as error:
            if not anyway or presses.count:
                raise
            app.say(f"{error.message}; running the command without the settings")
            return _run(argv)
        try:
            if presses.count:
                raise KeyboardInterrupt(presses.number)
            if not quiet:
                app.say(held_text(applied, skipped))
            return _run(argv)
        finally:
            _end(app, root, applied.transaction, quiet=quiet)


def _root(app: App, words: Sequence[str]) -> Machine:
    from ktrial.tuning.plans.wait_for_lock import PatientMachine

    return PatientMachine(app.root_session(f"applying {' '.join(words)}"), app.clock, app.say)


def _plan(root: Machine, catalog: Catalog, names: Sequence[str], *, dangerous: bool) -> Plan:
    """Return the plan, with the values already in force: the end of another `ktrial with` must not undo these."""
    from ktrial.tuning.plans.plan import with_same
    from ktrial.tuning.plans.resolve import make_plan, refuse_dangerous

    plan, _ = make_plan(root, catalog, names, allow_dangerous=dangerous)
    refuse_dangerous(plan, dangerous)
    plan = with_same(plan, catalog.knobs)
    if plan.empty:
        raise KtrialError(
            "nothing to apply: every setting was skipped", hint=f"run `ktrial plan {' '.join(names)}` to see why"
        )
    return plan


def _begin(root: Machine, make: Callable[[], Plan]) -> tuple[Applied, tuple[str, ...]]:
    """Apply a plan under a lease that ends with this process; also return the settings that were skipped."""
    from ktrial.machine.transactions import Applied, decode_reply
    from ktrial.tuning.plans.transaction_text import not_applied
    from ktrial.tuning.plans.wire import wire_plan

    for left in reversed(range(_ATTEMPTS)):
        plan = make()
        try:
            answer = root.request("apply", plan=wire_plan(plan, {"kind": "while-session"}, stacks=True))
        except StalePlan:
            if left:
                continue
            raise
        applied = decode_reply("apply", answer, Applied)
        if applied.state == "applied":
            return applied, tuple(refusal.address for refusal in plan.refusals)
        raise KtrialError(
            f"cannot apply the settings: {not_applied(applied)}",
            hint="add --anyway to run the command without the settings",
        )
    raise AssertionError("unreachable")


def _run(argv: Sequence[str]) -> int:
    from ktrial.bench.run.foreground import AttachedLauncher

    ended = AttachedLauncher.run(argv, os.environ, quiet=False)
    return ended.status if ended.status is not None else _BY_SIGNAL + (ended.signal or 0)


def _end(app: App, root: Machine, transaction: int, *, quiet: bool) -> None:
    """Restore the old values. If that fails, the lease restores them when this process ends."""
    from ktrial.kit.tables import columns
    from ktrial.machine.transactions import is_open, revert
    from ktrial.tuning.plans.transaction_text import has_left_some, released_text

    try:
        reverted = revert(root, transaction)
    except NoSuchTransaction:
        app.say("the settings were reverted before the command ended")
    except AgentError as error:
        app.say(f"{error.message}; ktrial restores the old values by itself")
    else:
        if not quiet or is_open([reverted]) or has_left_some([reverted]):
            app.say(released_text(reverted, width=columns()))
