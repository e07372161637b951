# SPDX-License-Identifier: Apache-2.0
"""Visits of trials whose arms a person sets up: finds the visit that is due, recognises its arm, and makes its turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.bench.suite import Task
from ktrial.judge.model.log import ArmFound, BlockDrawn, Event, Looked, RunEnded, TrialEnd, block_order, protocol_in
from ktrial.kit.errors import Refused, UnknownName
from ktrial.machine.facts import FactBook, FactKind
from ktrial.machine.when import Truth
from ktrial.trial.arms.builds import KERNEL_BUILD
from ktrial.trial.arms.manual import Due, look, place_of, signs_as_found
from ktrial.trial.outcome.summary import judgement_of
from ktrial.trial.protocol.file import ArmFile, TrialFile
from ktrial.trial.record import ArmSettings, StoredTrial

#: Facts that every turn needs besides those that identify the arms.
ALWAYS = ("boot.id", "kernel.release", *KERNEL_BUILD)
#: Rough time of a boot, from which ktrial plans the number of runs per boot.
BOOT_S = 120.0
#: Number of runs in a boot if the time of a run is unknown.
_RUNS_PER_BOOT = 2
_AS_FOUND = "bring the machine back to what it was when the trial began"


def due_of(stored: StoredTrial, log: Sequence[Event]) -> Due | None:
    """Return the next visit, or None when the trial is over."""
    step = judgement_of(log).next
    if step.action == "stop":
        return None
    protocol = protocol_in(log)
    block = step.block or 1
    drawn = {event.block: event.order for event in log if isinstance(event, BlockDrawn)}
    order = drawn[block] if step.drawn else block_order(protocol.seed, block, step.arms)
    arm = step.arms[0] if step.drawn else order[0]
    place = place_of(stored.file, arm)
    return Due(
        trial=stored.trial,
        block=block,
        arm=arm,
        visit=order.index(arm) + 1,
        visits=len(order),
        place=place,
        instruction=stored.arms[place].manual or _AS_FOUND,
        expect=stored.arms[place].expect,
        confirm=len(_places(stored)) > 1 and any(not stored.arms[one].expect for one in _places(stored)),
        new_boot=protocol.replicate != "run",
        new_build=protocol.replicate == "build",
    )


def closing(log: Sequence[Event]) -> list[Event]:
    """Return the final events that the log lacks if ktrial was killed after the judge's decision to stop."""
    from ktrial.judge.collect_log import collect

    judgement = judgement_of(log)
    if judgement.next.action != "stop" or isinstance(log[-1], TrialEnd):
        return []
    found: list[Event] = []
    at = max((at for at, event in enumerate(log) if isinstance(event, BlockDrawn)), default=None)
    if at is not None and not any(isinstance(event, Looked) for event in log[at:]):
        drawn = log[at]
        if isinstance(drawn, BlockDrawn) and drawn.block in collect(log).complete:
            found.append(Looked(blocks=judgement.blocks, verdicts=judgement.primary_verdicts))
    return [*found, TrialEnd(reason=judgement.next.reason)]


def facts_needed(arms: Mapping[str, ArmSettings]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*ALWAYS, *(fact for arm in arms.values() for fact in arm.expect))))


def _places(stored: StoredTrial) -> tuple[str, ...]:
    """Return the arms for which a person may set up the machine."""
    return tuple(dict.fromkeys(place_of(stored.file, arm) for arm in stored.file.arms))


def with_signs_of_control(
    file: TrialFile, arms: Mapping[str, ArmSettings], facts: FactBook, kinds: Mapping[str, FactKind]
) -> dict[str, ArmSettings]:
    """Return the arms; before the first run, add the facts that identify a control without `manual`.

    Raise Refused if the machine must be set up as the control now, but is not.
    """
    control = file.control
    settings = dict(arms)
    if file.arms[control].manual is None:
        _refuse_manual(file, arms, facts, kinds)
        settings[control] = msgspec.structs.replace(arms[control], expect=signs_as_found(file, facts, kinds))
    elif any(arm.changes for name, arm in arms.items() if file.arms[name].manual is None):
        seen = look(arms[control].expect, facts, kinds)
        if seen.truth is Truth.NO:
            raise Refused(
                f"cannot start the trial: the machine is not set up as {control} ({seen.told[0]})",
                hint=f"{file.arms[control].manual}; then start the trial",
            )
    return settings


def _refuse_manual(
    file: TrialFile, arms: Mapping[str, ArmSettings], facts: FactBook, kinds: Mapping[str, FactKind]
) -> None:
    for name, arm in file.arms.items():
        if arm.manual is not None and look(arms[name].expect, facts, kinds).truth is Truth.YES:
            raise Refused(
                f"cannot start the trial: the machine is set up as {name}, not as {file.control}",
                hint=f'set the machine up as {file.control}, or add  manual = "…"  and `expect` to'
                f" [arms.{file.control}]",
            )


def recognise(
    stored: StoredTrial, due: Due, facts: FactBook, kinds: Mapping[str, FactKind], done: str | None
) -> ArmFound:
    """Return the evidence that the due arm is in force.

    `done` is the arm that a person says is in force. It counts only if the machine does not show which arm is in force.
    Raise Refused if the machine shows another arm, or if neither the machine nor the person confirms the due arm.
    """
    if done is not None and done not in stored.arms:
        raise UnknownName("arm", done, stored.arms, hint=f"use one of: {', '.join(stored.arms)}")
    if done is not None and done not in (due.arm, due.place):
        raise Refused(f"{due.arm} is due in block {due.block}, not {done}", hint=due.todo)
    places = _places(stored)
    seen = look(due.expect, facts, kinds)
    others = {one: look(stored.arms[one].expect, facts, kinds).truth for one in places if one != due.place}
    found = ArmFound(block=due.block, arm=due.arm, by="facts", facts=seen.found)
    if seen.truth is Truth.NO:
        shown = next((f" (but as {one})" for one, truth in others.items() if truth is Truth.YES), "")
        raise Refused(
            f"{due.arm} is due in block {due.block}, but the machine is not set up as {due.place}{shown}: "
            f"{'; '.join(seen.told)}",
            hint=due.todo,
        )
    rivals = [one for one, truth in others.items() if truth is not Truth.NO]
    if not others or (seen.truth is Truth.YES and not rivals):
        return found
    if done is not None:
        return msgspec.structs.replace(found, by="person")
    why = "; ".join(seen.told) or (f"it could also be {rivals[0]}" if rivals else "the protocol names no fact for it")
    raise Refused(
        f"{due.arm} is due in block {due.block}, but the machine does not show whether the arm is in force: {why}",
        hint=f"{due.instruction}; then  ktrial trial next {due.trial} --done {due.place}",
    )


def refuse_other_kernel(stored: StoredTrial, due: Due, records: Sequence[RunRecord], facts: FactBook) -> None:
    """Raise Refused if earlier visits of the arm ran on another kernel, because an arm has only one kernel.

    Builds of one kernel may differ in their release; then the expected facts identify the arm.
    """
    if due.new_build and due.expect:
        return
    now = facts.value("kernel.release")
    for record in records:
        where = record.trial
        if where is None or where.block is None or place_of(stored.file, where.arm) != due.place:
            continue
        if None not in (now, where.kernel_release) and where.kernel_release != now:
            raise Refused(
                f"{due.place} ran on kernel {where.kernel_release} in block {where.block},"
                f" but the running kernel is {now}",
                hint=f"boot kernel {where.kernel_release}, or start a new trial",
            )


def file_of_visit(file: TrialFile, due: Due) -> TrialFile:
    """Return the protocol with only the arms that can be planned while the machine is set up for this visit."""
    if file.arms[due.arm].manual is None:
        arms = {name: arm for name, arm in file.arms.items() if name == file.control or arm.manual is None}
    else:
        arms = {file.control: ArmFile(), due.arm: file.arms[due.arm]}
    return msgspec.structs.replace(file, arms=arms)


def changed_arm(stored: StoredTrial, due: Due, now: Mapping[str, ArmSettings]) -> str | None:
    """Return the first arm of the due setup whose settings have changed since the trial began; None if none has."""
    for name, arm in now.items():
        kept = stored.arms[name]
        again = msgspec.structs.replace(arm, expect=kept.expect)
        if place_of(stored.file, name) == due.place and again.without_reasons != kept.without_reasons:
            return name
    return None


class VisitTurn:
    """The visits that one `ktrial trial next` makes: all successive visits that need no person."""

    def __init__(self, stored: StoredTrial, due: Due, found: ArmFound) -> None:
        self._file = stored.file
        self._due = due
        self._found = found

    @property
    def arm(self) -> str:
        """The arm of this turn, in which ktrial also makes the warm-up runs."""
        return self._due.arm

    def has(self, block: int, arm: str) -> bool:
        if self._due.new_boot:
            return (block, arm) == (self._due.block, self._due.arm)
        return place_of(self._file, arm) == self._due.place

    def found(self, block: int, arm: str) -> Event:
        return msgspec.structs.replace(self._found, block=block, arm=arm)


def runs_per_visit(file: TrialFile, tasks: Sequence[Task], facts: FactBook) -> int:
    """Return the number of runs per visit: the protocol's, or enough to make a boot worthwhile (1 without boots)."""
    from ktrial.judge.planning import runs_per_visit as planned

    if file.design.runs_per_visit is not None or file.design.replicate == "run":
        return file.design.runs_per_visit or 1
    invocations = [task.benchmark.invocation(task.parameters, facts) for task in tasks]
    invocations = [one for one in invocations if not one.once_per_boot]
    if not invocations:
        return 1
    known = [one.expected_s for one in invocations if one.expected_s is not None]
    if len(known) < len(invocations) or not sum(known) > 0:
        return _RUNS_PER_BOOT
    return planned(BOOT_S, sum(known))


def visits_made(before: Sequence[Event], after: Sequence[Event]) -> list[tuple[int, str, int]]:
    found: dict[tuple[int, str], int] = {}
    for event in after[len(before) :]:
        if isinstance(event, RunEnded) and event.block is not None:
            found[event.block, event.arm] = found.get((event.block, event.arm), 0) + 1
    return [(block, arm, runs) for (block, arm), runs in found.items()]
