# SPDX-License-Identifier: Apache-2.0
"""Computes how far a trial's verdict holds, and which arms only a person has confirmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ktrial.bench.guest_tools import EMULATED_CLOCK, EXACT_CLOCK
from ktrial.bench.record import RunRecord, Session
from ktrial.judge.model.log import ArmFound, Event, Protocol, RunEnded
from ktrial.kit.errors import Refused
from ktrial.kit.finding import Finding
from ktrial.kit.units import show_bytes
from ktrial.machine.facts import FactBook
from ktrial.trial.arms.builds import Visit
from ktrial.trial.protocol.file import GuestFile
from ktrial.trial.record import StoredTrial
from ktrial.trial.run.trial_builds import across


def scope_of(protocol: Protocol, records: Iterable[RunRecord], builds: Mapping[Visit, str]) -> str:
    """Return the scope of a verdict: across boots or builds only if every visit had its own boot or build."""
    records = tuple(records)
    here = "guest" if any(in_guest(one.session) for one in records) else "machine"
    places = {(one.trial.arm, one.trial.boot_id) for one in records if one.trial is not None}
    boots = {boot for _, boot in places}
    if builds:
        machine = f"on this boot of this {here}" if len(boots) <= 1 else f"on this {here}"
        return f"{across(builds)}, {machine}"
    if len(boots) <= 1:
        return f"on this boot of this {here}"
    if protocol.replicate != "run":
        return f"on this {here}, across {len(boots)} boots"
    arms = {arm for arm, _ in places}
    if len(boots) == len(places) == len(arms) == 2:
        return f"on this boot pair of this {here}"
    return f"on these {len(boots)} boots of this {here}"


def in_guest(session: Session) -> bool:
    own = session.machine.get("virtualisation.ktrial")
    return own is not None and own.value is True


def refuse_elsewhere(trial: str, began: Session, facts: FactBook) -> None:
    """Raise Refused if a trial began in a guest and would continue outside of guests, or the other way round."""
    if in_guest(began) != bool(facts.value("virtualisation.ktrial")):
        if in_guest(began):
            why, step = "outside of a guest: it began in one", "with `ktrial --host guest:NAME`"
        else:
            why, step = "in a guest: it began outside of one", "without --host"
        raise Refused(f"cannot resume {trial} {why}", hint=f"resume the trial {step}")


def clock_of_host(records: Iterable[RunRecord]) -> tuple[Finding, ...]:
    """Return a finding on the clock if the trial ran in an emulated guest."""
    sessions = {one.session.session: one.session for one in records}.values()
    if not any(in_guest(one) and _hypervisor(one) != "kvm" for one in sessions):
        return ()
    return (Finding(kind="guest-clock", level="note", sentence=EMULATED_CLOCK),)


def _hypervisor(session: Session) -> object:
    kind = session.machine.get("virtualisation.kind")
    return None if kind is None else kind.value


def guest_scope(guest: GuestFile, records: Iterable[RunRecord]) -> str:
    boots = len({one.trial.boot_id for one in records if one.trial is not None})
    clock = {"exact": ", whose time counts instructions", "emulated": ", whose time is an emulator's"}.get(guest.mode)
    alike = " that differ in a meaningless word" if guest.mode == "exact" else ""
    return f"in {guest.mode} guests{clock or ''}, across {boots} boots{alike}"


def title_of(trial: StoredTrial, name: str) -> str:
    """Return the trial's name, with both kernels if it compares one kernel with another."""
    kernels = [told for arm in trial.arms.values() if (told := arm.changes.get("kernel")) is not None]
    if len(kernels) != 1 or "kernel" not in trial.found:
        return name
    both = (kernels[0], trial.found["kernel"])
    releases = tuple(one.partition(", build ")[0] for one in both)
    new, old = both if releases[0] == releases[1] else releases
    return f"{name}: Linux {new} against Linux {old}"


def guest_findings(guest: GuestFile) -> tuple[Finding, ...]:
    """Return a finding on what the clock of exact or emulated guests measures; every result shows it."""
    sentence = {"exact": EXACT_CLOCK, "emulated": EMULATED_CLOCK}.get(guest.mode)
    return () if sentence is None else (Finding(kind="guest-clock", level="note", sentence=sentence),)


def output_findings(trial: StoredTrial, records: Iterable[RunRecord]) -> tuple[Finding, ...]:
    """Return a finding if compared commands print different output, because they may do different work.

    Output that differs from run to run says nothing, unless the other command always prints the same output.
    """
    if not trial.file.compares_commands:
        return ()
    printed: dict[str, dict[str, int]] = {}
    for one in records:
        if one.trial is not None and one.failure is None:
            raw = one.raw.get("stdout")
            printed.setdefault(one.trial.arm, {})["" if raw is None else raw.sha256] = raw.size_bytes if raw else 0
    first = printed.pop(trial.file.control, {})
    others = [
        arm
        for arm, seen in printed.items()
        if first and not seen.keys() & first.keys() and 1 in {len(seen), len(first)}
    ]
    if not others:
        return ()
    shown = {name: ", ".join(show_bytes(size) for size in sorted(set(seen.values()))) for name, seen in printed.items()}
    told = ", ".join(f"{arm} ({shown[arm]})" for arm in others)
    sentence = f"{told} and {trial.file.control} print different output: do the commands do the same work?"
    return (Finding(kind="different-output", level="suspect", sentence=sentence),)


def unvouched(log: Sequence[Event]) -> Iterator[tuple[int, str]]:
    """Yield each run of a manual trial for which the log does not show that its arm was in force, with the reason."""
    found = {(event.block, event.arm) for event in log if isinstance(event, ArmFound)}
    for event in log:
        if isinstance(event, RunEnded) and event.block is not None and (event.block, event.arm) not in found:
            yield event.run, f"nothing shows that {event.arm} was in force in block {event.block}"


def claimed(log: Sequence[Event]) -> tuple[Finding, ...]:
    """Return a finding on arms that only a person has confirmed."""
    visits = {(event.block, event.arm) for event in log if isinstance(event, ArmFound) and event.by == "person"}
    counts = Counter(arm for _, arm in visits)
    if not counts:
        return ()
    told = ", ".join(f"{arm} (in {number} block{'s'[: number != 1]})" for arm, number in sorted(counts.items()))
    return (
        Finding(
            kind="arm-claimed",
            level="note",
            sentence=f"a person, not the machine, confirmed that these arms were in force: {told}",
            values={arm: float(number) for arm, number in sorted(counts.items())},
        ),
    )
