# SPDX-License-Identifier: Apache-2.0
"""`ktrial keep`: make settings last across boots."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import lasting_words
from ktrial.cli.options import (
    LOADERS,
    dangerous_option,
    is_terminal,
    json_option,
    security_option,
    settings_words,
    write_json,
    yes_option,
)
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.agent.session import AgentSession
    from ktrial.cli.shared.keeping import KeptBoot
    from ktrial.cli.shared.kept_state import KeptState
    from ktrial.tuning.lasting.model import KeepPlan


@click.command(short_help="Make settings last across boots.")
@settings_words("TRIAL|TRANSACTION|PROFILE|FILE|KNOB=VALUE…", lasting_words)
@click.option("--next-boot", is_flag=True, help="Leave the running values alone until the next boot.")
@click.option("--undo", is_flag=True, help="Stop keeping the named KNOBs, or everything if none is named.")
@click.option("--accept", is_flag=True, help="Update the kept PROFILEs (default: all) to this version of ktrial.")
@click.option("--dry-run", is_flag=True, help="Show the files and values; write nothing.")
@click.option("--anyway", is_flag=True, help="Write even if another file or service overrides the value.")
@click.option("--loader", type=click.Choice(LOADERS), help="Boot loader that boots this system, if there are several.")
@click.option("--watch-drift", is_flag=True, help="Install a timer for a daily `ktrial drift`; with --undo, remove it.")
@yes_option
@dangerous_option
@security_option
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
    loader: str | None,
    watch_drift: bool,
    yes: bool,
    yes_dangerous: bool,
    yes_security: tuple[str, ...],
    as_json: bool,
    boot: KeptBoot | None = None,
) -> int:
    """Write settings into the system's own configuration files, and apply the settings now.

    Each file says why each setting is there. From a trial, ktrial keeps the configuration that was better; if several
    were, write TRIAL/ARM. `ktrial drift` checks what is kept; --undo and `ktrial revert` restore the files exactly.

    \b
    sudo ./ktrial keep swappiness-10-3fa9c1 --dry-run
    sudo ./ktrial keep vm.swappiness=10
    sudo ./ktrial keep --undo vm.swappiness
    """
    from ktrial.cli.shared.keeping import confirm_guarded, refuse_losing, refuse_unwritable, report_unwritten, show_keep
    from ktrial.cli.shared.kept_state import read_kept
    from ktrial.tuning.lasting.keep_plan import wire_keep

    if watch_drift:
        from ktrial.cli.shared.drift_timer import watch

        return watch(app, words, undo=undo, dry_run=dry_run, yes=yes, as_json=as_json)
    if boot is None:
        _check_words(words, undo=undo, accept=accept)
    session = app.root_session("undoing what is kept" if undo else "keeping " + (" ".join(words) or "what changed"))
    state = read_kept(app, session, to_write=not undo)
    keep = _plan(
        app, session, words, state, undo=undo, accept=accept, allow_dangerous=yes_dangerous, loader=loader, boot=boot
    )
    if keep is None:
        from ktrial.cli.shared.unkeeping import undo_all

        return undo_all(app, session, state.status, dry_run=dry_run, asks=not yes and not as_json, as_json=as_json)
    next_boot = next_boot and not undo
    plan = wire_keep(keep, next_boot=next_boot)
    if not as_json:
        show_keep(keep, next_boot=next_boot)
    if not anyway and not dry_run:
        refuse_losing(keep.rivals, of_boot=boot is not None)
    if dry_run or not plan["steps"]:
        return report_unwritten(keep, plan, as_json=as_json, is_complete=undo or bool(keep.entries))
    refuse_unwritable(session, plan)
    confirm_guarded(keep.guarded, yes_security, may_ask=not as_json and is_terminal())
    if not yes and not as_json and is_terminal():
        from ktrial.tuning.plans.confirm import must_agree

        must_agree("Write?")
    return _carry_out(app, session, keep, plan, as_json=as_json)


def _check_words(words: Sequence[str], *, undo: bool, accept: bool) -> None:
    if undo and accept:
        raise BadInput("cannot combine --undo with --accept", hint="leave out --undo or --accept")
    if not words and not undo and not accept:
        raise BadInput(
            "nothing to keep", hint="name a trial, a profile or a setting; `ktrial status` shows what is kept"
        )


def _plan(
    app: App,
    session: AgentSession,
    words: tuple[str, ...],
    state: KeptState,
    *,
    undo: bool,
    accept: bool,
    allow_dangerous: bool,
    loader: str | None,
    boot: KeptBoot | None,
) -> KeepPlan | None:
    """Return what to write; None if everything that is kept must be undone."""
    from ktrial.cli.shared.keeping import plan_words, refuse_edited

    refuse_edited(state.files)
    if accept:
        from ktrial.cli.shared.profile_updates import plan_accept

        return plan_accept(app, session, words, *state)
    if not words and boot is None:
        return None
    if undo:
        from ktrial.cli.shared.unkeeping import plan_undo

        return plan_undo(app, session, words, *state)
    return plan_words(app, session, words, *state, allow_dangerous=allow_dangerous, loader=loader, boot=boot)


def _carry_out(app: App, session: AgentSession, keep: KeepPlan, plan: dict[str, Any], *, as_json: bool) -> int:
    """Apply the plan and report the result; return 1 if nothing is kept."""
    from ktrial.cli.shared.kept_state import apply_keep
    from ktrial.kit.tables import columns
    from ktrial.tuning.lasting.keep_text import keep_json
    from ktrial.tuning.plans.confirm import apply_whole
    from ktrial.tuning.plans.transaction_text import apply_text

    applied, answer = apply_whole(session, lambda: apply_keep(session, plan))
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
        app.say("`ktrial drift` checks kept settings after a boot; `ktrial keep --undo` removes them")
    return 0 if applied.state == "applied" else 1
