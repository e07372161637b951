# SPDX-License-Identifier: Apache-2.0
"""`ktrial keep`: make settings last across boots."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import lasting_words
from ktrial.cli.options import dangerous_option, is_terminal, json_option, write_json, yes_option
from ktrial.kit.errors import BadInput, Refused

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.shared.kept_state import KeptState
    from ktrial.tuning.lasting.model import KeepPlan


@click.command(short_help="Make settings last across boots.")
@click.argument("words", shell_complete=lasting_words, nargs=-1, metavar="TRIAL|TRANSACTION|PROFILE|KNOB=VALUE…")
@click.option("--next-boot", is_flag=True, help="Leave the running values alone until the next boot.")
@click.option("--undo", is_flag=True, help="Stop keeping the named settings, or all without a name.")
@click.option(
    "--accept", is_flag=True, help="Take over what an update of ktrial changed in kept profiles, or in those named."
)
@click.option("--dry-run", is_flag=True, help="Show the files and values; write nothing.")
@click.option("--anyway", is_flag=True, help="Write even where another file or service overrides the value.")
@yes_option
@dangerous_option
@json_option
@click.pass_obj
def command(
    app: App,
    words: tuple[str, ...],
    next_boot: bool,
    undo: bool,
    accept: bool,
    dry_run: bool,
    anyway: bool,
    yes: bool,
    yes_dangerous: bool,
    as_json: bool,
) -> int:
    """Write settings into the system's own configuration files, and apply them now.

    Each file says why each setting is there. Of a trial, ktrial keeps the arm that came out better; TRIAL/ARM names
    one of several. `ktrial drift` checks what is kept; --undo and `ktrial revert` restore the files byte for byte.

    \b
    sudo ./ktrial keep vm.swappiness=10
    sudo ./ktrial keep micro-stutter-watermarks --dry-run
    sudo ./ktrial keep --undo
    """
    from ktrial.cli.shared.keeping import refuse_losing, refuse_unwritable
    from ktrial.cli.shared.kept_state import read_kept
    from ktrial.tuning.lasting.keep_plan import wire_keep

    if undo and accept:
        raise BadInput("cannot combine --undo with --accept", hint="leave out one of them")
    if not words and not undo and not accept:
        raise BadInput(
            "nothing to keep", hint="name a trial, a profile or a setting; `ktrial drift` shows what is kept"
        )
    purpose = "undoing what is kept" if undo else f"keeping {' '.join(words) or 'what changed in profiles'}"
    session = app.root_session(purpose)
    state = read_kept(app, session, to_write=not undo)
    keep = _plan(app, session, words, state, undo=undo, accept=accept, allow_dangerous=yes_dangerous)
    if keep is None:
        from ktrial.cli.shared.unkeeping import undo_all

        return undo_all(app, session, state.status, dry_run=dry_run, asks=not yes and not as_json, as_json=as_json)
    next_boot = next_boot and not undo
    plan = wire_keep(keep, next_boot=next_boot)
    if not as_json:
        _show(keep, next_boot=next_boot)
    if not anyway and not dry_run:
        refuse_losing(keep.rivals)
    if dry_run or not plan["steps"]:
        return _unwritten(keep, plan, as_json=as_json, is_complete=undo or bool(keep.entries))
    refuse_unwritable(session, plan)
    if not yes and not as_json and is_terminal():
        from ktrial.tuning.plans.confirm import must_agree

        must_agree("Write?")
    return _carry_out(app, session, keep, plan, as_json=as_json)


def _plan(
    app: App,
    session: AgentSession,
    words: tuple[str, ...],
    state: KeptState,
    *,
    undo: bool,
    accept: bool,
    allow_dangerous: bool,
) -> KeepPlan | None:
    """Return what to write; None if all that is kept is to be undone."""
    from ktrial.cli.shared.keeping import plan_words, refuse_edited

    status, kept = state
    refuse_edited(kept)
    if accept:
        from ktrial.cli.shared.profile_updates import plan_accept

        return plan_accept(app, session, words, status, kept)
    if not words:
        return None
    if undo:
        from ktrial.cli.shared.unkeeping import plan_undo

        return plan_undo(app, session, words, status, kept)
    return plan_words(app, session, words, status, kept, allow_dangerous=allow_dangerous)


def _show(keep: KeepPlan, *, next_boot: bool) -> None:
    from ktrial.kit.tables import columns
    from ktrial.tuning.lasting.keep_text import keep_text

    sys.stdout.write(keep_text(keep, next_boot=next_boot, width=columns()))


def _unwritten(keep: KeepPlan, plan: dict[str, Any], *, as_json: bool, is_complete: bool) -> int:
    """Report a plan that is not carried out; return 1 if nothing of it can be kept."""
    from ktrial.tuning.lasting.keep_text import keep_json

    if as_json:
        write_json(keep_json(keep, plan, None))
    if not is_complete and keep.left_out:
        first = keep.left_out[0]
        what = first.address if first.value is None else f"{first.address}={first.value}"
        raise Refused(f"cannot keep {what}: {first.reason}", hint=first.hint)
    return 0


def _carry_out(app: App, session: AgentSession, keep: KeepPlan, plan: dict[str, Any], *, as_json: bool) -> int:
    """Apply the plan and report the result; return 1 if nothing is kept."""
    from ktrial.cli.shared.kept_state import apply_keep
    from ktrial.kit.tables import columns
    from ktrial.machine.transactions import Applied, decode_reply
    from ktrial.tuning.lasting.keep_text import keep_json
    from ktrial.tuning.plans.confirm import held_back, put_back
    from ktrial.tuning.plans.transaction_text import apply_text

    with held_back() as presses:
        answer = apply_keep(session, plan)
    applied = decode_reply("apply", answer, Applied)
    if presses.count and applied.state == "applied":
        put_back(session, applied.transaction)
        raise KeyboardInterrupt(presses.number)
    if as_json:
        write_json(keep_json(keep, plan, answer))
    elif applied.state == "applied":
        count = sum(len(entry.values) for entry in keep.entries)
        subject = "1 setting is" if count == 1 else f"{count} settings are"
        what = f"{subject} kept" if keep.entries else "These settings are no longer kept"
        sys.stdout.write(f"\n{what} (transaction {applied.transaction}).\n")
    else:
        names = [str(step.get("knob") or step.get("path") or "zram") for step in plan["steps"]]
        sys.stdout.write(apply_text(applied, names, width=columns()))
    if applied.state == "applied" and keep.entries and not as_json:
        app.say("`ktrial drift` checks them after the next boot; `ktrial keep --undo` undoes this")
    return 0 if applied.state == "applied" else 1
