# SPDX-License-Identifier: Apache-2.0
"""What a trial's verdict holds for, by what was drawn anew; and what only a person vouches for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ktrial.domain.arm_build import Visit
from ktrial.domain.finding import Finding
from ktrial.domain.guest import EMULATED_CLOCK, EXACT_CLOCK
from ktrial.domain.run import RunRecord
from ktrial.domain.trial_file import GuestFile
from ktrial.domain.trial_log import ArmFound, Event, Protocol, RunEnded
from ktrial.services.trial_builds import across


def scope_of(protocol: Protocol, records: Iterable[RunRecord], builds: Mapping[Visit, str]) -> str:
    """Only what was drawn anew for every visit is what a verdict reaches beyond."""
    places = {(one.trial.arm, one.trial.boot_id) for one in records if one.trial is not None}
    boots = {boot for _, boot in places}
    if builds:
        machine = "on this boot of this machine" if len(boots) <= 1 else "on this machine"
        return f"{across(builds)}, {machine}"
    if len(boots) <= 1:
        return "on this boot of this machine"
    if protocol.replicate != "run":
        return f"on this machine, across {len(boots)} boots"
    arms = {arm for arm, _ in places}
    if len(boots) == len(places) == len(arms) == 2:
        return "on this boot pair of this machine"
    return f"on these {len(boots)} boots of this machine"


def guest_scope(guest: GuestFile, records: Iterable[RunRecord]) -> str:
    """What a verdict from guests holds for."""
    boots = len({one.trial.boot_id for one in records if one.trial is not None})
    if guest.mode == "exact":
        return f"in exact guests, across {boots} boots that differ in a meaningless word"
    return f"in {guest.mode} guests, across {boots} boots"


def guest_findings(guest: GuestFile) -> tuple[Finding, ...]:
    """What a guest's clock means; no result is told without it."""
    sentence = {"exact": EXACT_CLOCK, "emulated": EMULATED_CLOCK}.get(guest.mode)
    return () if sentence is None else (Finding(kind="guest-clock", level="note", sentence=sentence),)


def unvouched(log: Sequence[Event]) -> Iterator[tuple[int, str]]:
    """Runs of a trial by hand before which nothing says that their arm was in force."""
    found = {(event.block, event.arm) for event in log if isinstance(event, ArmFound)}
    for event in log:
        if isinstance(event, RunEnded) and event.block is not None and (event.block, event.arm) not in found:
            yield event.run, f"nothing says that {event.arm} was in force in block {event.block}"


def claimed(log: Sequence[Event]) -> tuple[Finding, ...]:
    """Arms that were in force because a person said so."""
    visits = {(event.block, event.arm) for event in log if isinstance(event, ArmFound) and event.by == "person"}
    counts = Counter(arm for _, arm in visits)
    if not counts:
        return ()
    told = ", ".join(f"{arm} (in {number} block{'s'[: number != 1]})" for arm, number in sorted(counts.items()))
    return (
        Finding(
            kind="arm-claimed",
            level="note",
            sentence=f"that these arms were in force was said by a person, the machine does not show it: {told}",
            values={arm: float(number) for arm, number in sorted(counts.items())},
        ),
    )
