# SPDX-License-Identifier: Apache-2.0
"""Prepares a trial boot, boots its entry, and ends the attempt."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ktrial.cli.options import is_terminal, write_json
from ktrial.cli.shared.keeping import KeptBoot, confirm_guarded
from ktrial.kit.errors import AgentError, BadInput, Contradiction, Refused, nearest
from ktrial.kit.tables import columns
from ktrial.machine.transactions import checked, revert, status
from ktrial.tuning.boots.boot_status import BootStatus, decode_boot_status, is_being_checked, rehearsal_of
from ktrial.tuning.boots.boot_text import TrialTerms, plan_text, status_text
from ktrial.tuning.boots.command_line import WordChange, find_guarded_words, parse_changes
from ktrial.tuning.boots.entry import REHEARSAL, TRIAL, BootPlan, find_kernel, plan_boot, plan_rehearsal
from ktrial.tuning.boots.gather import KEXEC, gather_kernel, gather_scene
from ktrial.tuning.boots.refusals import find_obstacles, other_kernel_obstacles, refuse
from ktrial.tuning.boots.scene import ANYWAY, YES_KERNEL, BootScene, Obstacle
from ktrial.tuning.boots.wire import GUARD_KINDS, name_guards, wire_boots
from ktrial.tuning.exports.model import LastingSetting, boot_word
from ktrial.tuning.knobs.profile import flatten
from ktrial.tuning.knobs.value import kernel_text
from ktrial.tuning.lasting.boot_words import REMOVAL
from ktrial.tuning.plans.confirm import apply_whole
from ktrial.tuning.plans.transaction_text import apply_text, has_left_some, revert_text

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.machine.facts import FactBook
    from ktrial.machine.transactions import Reverted
    from ktrial.tuning.catalog.model import Catalog

#: Seconds that systemd may be stuck before the watchdog resets the machine.
_WATCHDOG_S = 60
_BOOT = "boot:"
#: The copy of the agent that the units run.
_AGENT = "/usr/local/libexec/ktrial/ktrial-agent"
#: Longest time of a health check: the limit of `--limit` plus the margin of its unit.
_LONGEST_CHECK_NS = 3660 * 10**9
#: Key in the sources of the transaction: whether ktrial also installed the agent that judges the boots.
_INSTALLED = "installed_agent"
#: Key in the sources of the transaction: what the attempt changes besides kernel arguments.
_TRIED = "boot"
TRIAL_NAME = "trial"


class BootConsent(NamedTuple):
    """What the user has agreed to, with options or at a prompt."""

    yes: bool = False
    security: tuple[str, ...] = ()
    kernel: bool = False
    anyway: bool = False

    @property
    def options(self) -> list[str]:
        return [ANYWAY] * self.anyway + [YES_KERNEL] * self.kernel


class BootWay(NamedTuple):
    """How to boot: the loader's name, the time limit, the units that guard the boot, and whether to reboot now."""

    loader: str | None = None
    limit_s: int = 300
    guards: tuple[str, ...] = ()
    reboots: bool = True


class Attempt(NamedTuple):
    """What the user wants to boot: changes to the command line, and the path of another kernel."""

    changes: tuple[WordChange, ...] = ()
    kernel: str | None = None


class BootMaker:
    """Plans boot entries on this machine, after checking for obstacles."""

    def __init__(self, session: AgentSession, facts: FactBook, loader: str | None, consent: BootConsent) -> None:
        self._session, self._facts, self._consent = session, facts, consent
        self.scene: BootScene = gather_scene(session, facts, chosen=loader)
        self.obstacles: list[Obstacle] = find_obstacles(self.scene)
        refuse(self.obstacles, consent.options)
        assert self.scene.grounds is not None, "without them the loader is an obstacle"
        self.grounds = self.scene.grounds

    @property
    def watchdog_s(self) -> int | None:
        return None if self.scene.watchdog is None else _WATCHDOG_S

    def plan(self, attempt: Attempt, entry: str = TRIAL) -> BootPlan:
        plan = plan_boot(self.grounds, attempt.changes, kernel=attempt.kernel, watchdog_s=self.watchdog_s, entry=entry)
        if plan.is_other_kernel:
            kernel = gather_kernel(self._session, self._facts, plan, self.scene)
            found = other_kernel_obstacles(plan, kernel, self.scene)
            refuse(found, self._consent.options)
            self.obstacles += found
        return plan

    def rehearsal(self) -> BootPlan:
        return plan_rehearsal(self.grounds, watchdog_s=self.watchdog_s)


def loader_of(named: str | None, *, kexec: bool, reboots: bool) -> str | None:
    """Return what starts the entry: kexec, the loader `named`, or None if ktrial must find the loader.

    Raise Contradiction for options that exclude each other.
    """
    if kexec and not reboots:
        raise Contradiction(
            "cannot combine --kexec with --no-reboot: a reboot by hand discards the loaded kernel",
            hint="leave out --no-reboot",
        )
    if kexec and named is not None:
        raise Contradiction(
            "cannot combine --kexec with --loader: kexec bypasses the boot loader", hint="leave out --loader or --kexec"
        )
    return KEXEC if kexec else named


def read_status(session: AgentSession) -> BootStatus:
    return decode_boot_status(session.request("boot-status"))


def version_of(session: AgentSession, path: str) -> str:
    """Return the name and version of the boot loader that reads `path`; empty if the agent does not know them."""
    return str(session.request("boot-status", path=path).get("version") or "")


def read_attempt(app: App, maker: BootMaker, words: Sequence[str]) -> Attempt:
    """Parse kernel arguments, profiles and at most one kernel. Of a profile, only the kernel arguments count."""
    texts: list[str] = []
    kernel: str | None = None
    for word in (part for given in words for part in given.split()):
        is_file = word.endswith(".toml") and "=" not in word
        found = find_kernel(word, maker.grounds) if not (is_file or "=" in word or word.startswith("-")) else None
        if found is not None and kernel is not None:
            raise BadInput(f"cannot try two kernels in one boot: {kernel} and {found}", hint="name only one kernel")
        if found is not None:
            kernel = found
        elif word in app.catalog.profiles or is_file:
            catalog, (name,) = app.catalog_for((word,))
            texts += _words_of_profile(catalog, name, word)
        else:
            texts.append(word)
    return Attempt(parse_changes(texts) if texts else (), kernel)


def _words_of_profile(catalog: Catalog, name: str, given: str) -> list[str]:
    settings = flatten(name, catalog.profiles)
    found = []
    for setting in settings:
        if str(setting.knob).startswith(_BOOT):
            bare = str(setting.knob).removeprefix(_BOOT)
            knob = catalog.knobs[str(setting.knob)]
            word = boot_word(LastingSetting(knob=knob, text=kernel_text(knob, setting.value)))
            found.append(f"-{bare}" if word is None else word)
    if not found:
        hint = f"use `ktrial apply {given}`, which needs no boot"
        if f"{_BOOT}{name}" in catalog.knobs:
            hint += f"; the kernel argument of that name is boot:{name}"
        raise BadInput(f"the profile {name} has no kernel arguments", hint=hint)
    return found


def read_guards(session: AgentSession, names: Sequence[str]) -> tuple[str, ...]:
    """Return the units that guard a boot. Raise BadInput for a unit that is not active now."""
    units = name_guards(names)
    if not units:
        return ()
    active = session.request("boot-status", units=True).get("units")
    if active is None:
        raise Refused("cannot guard a boot: systemd does not list the active units", hint="leave out --guard")
    for unit in (one for one in units if one not in active):
        near = [one for one in nearest(unit, active) if one.endswith(tuple(GUARD_KINDS))]
        hint = f"did you mean {' or '.join(near)}? (an alias does not count)"
        if not near:
            hint = "name a unit of `systemctl list-units --state=active`; an alias does not count"
        raise BadInput(f"cannot guard a boot with {unit}: no active unit has this name", hint=hint)
    return units


def try_boot(app: App, words: Sequence[str], way: BootWay, *, consent: BootConsent, as_json: bool) -> int:
    """Show what a boot with these kernel arguments would do; with --yes, prepare it and reboot."""
    session = app.root_session("preparing a boot")
    now = read_status(session)
    refuse_second(now)
    guards = read_guards(session, way.guards)
    facts = session.facts()
    maker = BootMaker(session, facts, way.loader, consent)
    plan = maker.plan(read_attempt(app, maker, words))
    rehearsal = rehearsal_of(now, version_of(session, plan.path))
    plans = [plan] if rehearsal is not None else [maker.rehearsal(), plan]
    terms = TrialTerms(
        limit_s=way.limit_s,
        watchdog=maker.scene.watchdog,
        watchdog_s=maker.watchdog_s,
        rehearsal=rehearsal,
        guards=guards,
    )
    guarded = find_guarded_words(plan.line, app.catalog.knobs)
    title = f"boot try {' '.join(words)}"
    other = plan.entry.file if plan.is_other_kernel else None
    sources = {_TRIED: {"removed": list(plan.removed), "kernel": other}}
    confirmed = [one.name for one in guarded]
    wired = wire_boots(title, plans, limit_s=way.limit_s, guards=guards, confirmed=confirmed, sources=sources)
    if not as_json:
        sys.stdout.write(plan_text(plan, terms, maker.obstacles, width=columns()))
    refuse_forbidden(session, wired)
    if not consent.yes:
        if as_json:
            write_json({"schema": "ktrial.boot/1", "plan": wired, "transaction": None})
        app.say(f"nothing was written; add --yes to prepare this boot{' and reboot' if way.reboots else ''}")
        return 0
    confirm_guarded(guarded, consent.security, may_ask=not as_json and is_terminal())
    number = prepare_boots(session, wired, as_json=as_json)
    if number is None:
        return 1
    if as_json:
        write_json({"schema": "ktrial.boot/1", "plan": wired, "transaction": number})
    first, then = (TRIAL, None) if rehearsal is not None else (REHEARSAL, TRIAL)
    start_boot(app, session, first, then, reboots=way.reboots)
    return 0


def refuse_forbidden(session: AgentSession, plan: Mapping[str, Any]) -> None:
    """Raise Refused, before anything is written, if the agent would refuse the plan."""
    for step in checked(session, plan):
        if step.outcome not in {"ready", "same"}:
            hint = "remove the cause, or boot the kernel by hand from the loader's menu"
            if step.outcome == "forbidden":
                hint = "leave out what ktrial refuses, or boot the kernel by hand from the loader's menu"
            raise Refused(f"cannot prepare a boot: {step.message}", hint=hint)


def start_boot(app: App, session: AgentSession, entry: str, then: str | None, *, reboots: bool) -> None:
    """Select an entry for the next boot and reboot; if that fails, remove what was prepared.

    `then` is the entry to boot after a rehearsal. Without `reboots`, the user reboots the machine.
    """
    try:
        arm(session, entry, then)
        if not reboots:
            app.say("the next boot uses the prepared entry; `ktrial boot undo` removes that entry")
            return
        app.say("the machine reboots now; `ktrial boot status` shows how it went")
        session.request("reboot")
    except AgentError:
        now = read_status(session)
        if now.transaction is not None:
            remove_boots(session, now)
        if now.running is not None:
            session.request("reboot")
        raise


def refuse_second(now: BootStatus) -> None:
    if now.transaction is not None:
        raise Refused(
            f"cannot prepare a boot: another boot is prepared already (transaction {now.transaction})",
            hint="look at the prepared boot with `ktrial boot status`, or remove it with `ktrial boot undo`",
        )


def prepare_boots(session: AgentSession, plan: dict[str, Any], *, as_json: bool) -> int | None:
    """Install the agent that judges boots and write the entries; return the transaction, or None if that failed."""
    already = session.list([_AGENT])[_AGENT]
    # Install also over an older copy, which could not judge these boots.
    session.request("recovery", install=True)
    plan["sources"] = {**plan.get("sources", {}), _INSTALLED: not already}
    try:
        applied, _ = apply_whole(session, lambda: session.request("apply", plan=plan))
    except AgentError:
        if not already:
            session.request("recovery", install=False)
        raise
    if applied.state == "applied":
        return applied.transaction
    if not already:
        session.request("recovery", install=False)
    if not as_json:
        sys.stdout.write(apply_text(applied, [step["path"] for step in plan["steps"]], width=columns()))
    return None


def arm(session: AgentSession, entry: str, then: str | None = None) -> None:
    session.request("boot-arm", entry=entry, **({} if then is None else {"then": then}))


def trials_of(session: AgentSession) -> dict[int, str]:
    """Return the name of the trial for each transaction that prepared boots for a trial."""
    found = ((one.transaction, (one.sources or {}).get(TRIAL_NAME)) for one in status(session).transactions)
    return {number: str(name) for number, name in found if name is not None}


def trial_of(session: AgentSession, now: BootStatus) -> str | None:
    """Return the trial for which boots are prepared, if any."""
    return None if now.transaction is None else trials_of(session).get(now.transaction)


def wait_until_judged(app: App, session: AgentSession) -> BootStatus:
    """Wait until the agent has judged a trial boot, but at most 3660 s; return the status.

    Until the judgement the check must stay installed, because only the check brings back a machine whose boot hangs.
    """
    now = read_status(session)
    if is_being_checked(now):
        app.say("waiting until this boot has been checked")
    end_ns = app.clock.monotonic_ns() + _LONGEST_CHECK_NS
    while is_being_checked(now) and app.clock.monotonic_ns() < end_ns:
        app.clock.sleep(1.0)
        now = read_status(session)
    return now


def remove_boots(session: AgentSession, now: BootStatus) -> Reverted:
    """Remove the boot entries, the units and the copy of the agent that was installed for them."""
    assert now.transaction is not None, "the caller has looked"
    found = next(one for one in status(session).transactions if one.transaction == now.transaction)
    done = revert(session, now.transaction)
    if (found.sources or {}).get(_INSTALLED):
        session.request("recovery", install=False)
    return done


def show_status(app: App, *, as_json: bool) -> int:
    session = app.root_session("reading the record of boots")
    reply = session.request("boot-status")
    if as_json:
        write_json({"schema": "ktrial.boot-status/1", **reply})
    else:
        sys.stdout.write(status_text(decode_boot_status(reply), width=columns(), trials=trials_of(session)))
    return 0


def undo_boot(app: App, *, as_json: bool) -> int:
    """Remove the prepared boot; a running trial boot continues until the next boot."""
    session = app.root_session("removing a trial boot")
    now = wait_until_judged(app, session)
    done = [] if now.transaction is None else [remove_boots(session, now)]
    if as_json:
        write_json({"schema": "ktrial.boot-undo/1", "transactions": done})
    elif not done:
        sys.stdout.write("No boot is prepared.\n")
    else:
        sys.stdout.write(revert_text(done, width=columns()))
    if done and now.running is not None:
        app.say("this boot still has the tried arguments or kernel; reboot for the default entry")
    return int(any(one.state != "reverted" for one in done))


def loader_to_keep(now: BootStatus, named: str | None) -> str | None:
    """Return the loader that booted the attempt, or `named` if kexec booted it or ktrial does not know the loader.

    Raise Contradiction if `named` is not the loader that booted the attempt.
    """
    if now.loader in {None, KEXEC, named}:
        return named
    if named is not None:
        raise Contradiction(
            f"cannot keep this boot with --loader {named}: {now.loader} booted it", hint="leave out --loader"
        )
    return now.loader


def end_kept(app: App, session: AgentSession, now: BootStatus) -> int:
    """Remove what was prepared for a boot that is kept now. If that fails, report what remains and return 1."""
    done = remove_boots(session, now)
    if done.state != "reverted" or has_left_some([done]):
        app.say("ktrial keeps this boot, but cannot remove everything that it prepared for the boot:")
        sys.stderr.write(revert_text([done], width=columns()))
    return int(done.state != "reverted")


def words_to_keep(session: AgentSession, now: BootStatus) -> tuple[tuple[str, ...], KeptBoot]:
    """Return the words for `ktrial keep`, and the kernel. Raise Refused unless the boot was healthy."""
    entry = now.entry(TRIAL)
    if entry is None:
        raise Refused("nothing to keep: no boot is prepared", hint="run `ktrial boot try ARGUMENT` to try an argument")
    ended = [one.event for one in now.of_attempt() if one.entry == TRIAL and one.event not in {"armed", "started"}]
    if not ended or ended[-1] not in {"healthy", "left"}:
        has_failed = bool(ended) and ended[-1] in {"failed", "fell-back"}
        raise Refused(
            f"cannot keep the trial boot: {'it failed' if has_failed else 'it has not passed its health check yet'}",
            hint=f"run `ktrial boot status` to see {'why' if has_failed else 'its checks'}",
        )
    found = next(one for one in status(session).transactions if one.transaction == now.transaction)
    tried = (found.sources or {}).get(_TRIED, {})
    removed = tuple(f"{REMOVAL}{word}" for word in tried.get("removed", ()))
    words = (f"{_BOOT}{word}" if "=" in word else f"{_BOOT}{word}=on" for word in entry.words)
    return (*removed, *words), KeptBoot(kernel=tried.get("kernel"))
