# SPDX-License-Identifier: Apache-2.0
"""Checks in which boot each visit ran, for trials that need a separate boot for each visit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktrial.bench.record import RunRecord
from ktrial.judge.model.log import BlockDrawn, BlockVoided, Event, RunEnded, protocol_in
from ktrial.kit.errors import Refused
from ktrial.trial.arms.manual import Due

Visit = tuple[int, str]


def visit_in(records: Sequence[RunRecord], boot_id: str) -> Visit | None:
    """Return the newest visit that began in this boot; None if there is none. Warm-ups do not count."""
    for record in reversed(records):
        place = record.trial
        if place is not None and place.block is not None and place.boot_id == boot_id:
            return place.block, place.arm
    return None


def refuse_used_boot(due: Due, records: Sequence[RunRecord], boot_id: str | None) -> None:
    """Raise Refused if this boot already had a visit other than the due visit, or if the boot is unknown."""
    if not due.new_boot:
        return
    if boot_id is None:
        raise Refused("cannot tell boots apart: the boot id of this machine is unknown", hint="mount /proc")
    had = visit_in(records, boot_id)
    if had is not None and had != (due.block, due.arm):
        raise Refused(
            f"cannot measure {due.arm} in this boot: it was already used for {had[1]} in block {had[0]}",
            hint=f"reboot first: {due.todo}",
        )


def cut_off(log: Sequence[Event], records: Sequence[RunRecord], boot_id: str | None) -> BlockVoided | None:
    """Return the event that makes a block with an unfinished visit void; None if there is none.

    The boot of that visit is over, and the missing runs can no longer be made. Without a boot id any unfinished visit
    counts, because its guest is gone or its program must be built again.
    """
    protocol = protocol_in(log)
    last = next((event for event in reversed(log) if isinstance(event, BlockDrawn)), None)
    if protocol.replicate == "run" or last is None:
        return None
    if any(isinstance(event, BlockVoided) and event.block == last.block for event in log):
        return None
    for arm in last.order:
        made = sum(isinstance(event, RunEnded) and (event.block, event.arm) == (last.block, arm) for event in log)
        if 0 < made < protocol.runs_per_visit and boots_of(records, (last.block, arm)) != {boot_id}:
            over = f"its {protocol.replicate} is over"
            reason = f"the visit was cut off after {made} of {protocol.runs_per_visit} runs, and {over}"
            return BlockVoided(block=last.block, arm=arm, cause=protocol.replicate, reason=reason)
    return None


def boots_of(records: Sequence[RunRecord], visit: Visit) -> set[str | None]:
    return {one.trial.boot_id for one in records if _is_whole(one) and _visit(one) == visit and one.trial is not None}


def boots_misused(log: Sequence[Event], records: Sequence[RunRecord]) -> Iterator[tuple[int, str]]:
    """Yield runs whose boot is unknown or had another visit, or whose visit had another boot, each with the reason."""
    if protocol_in(log).replicate != "boot":
        return
    voided = {event.block for event in log if isinstance(event, BlockVoided)}
    visits: dict[str, Visit] = {}
    boots: dict[Visit, str] = {}
    for record in records:
        visit, boot = _visit(record), record.trial.boot_id if record.trial is not None else None
        if visit is None or visit[0] in voided or not _is_whole(record):
            continue
        if boot is None:
            yield record.run, "its boot is unknown"
            continue
        before = visits.setdefault(boot, visit)
        if before != visit:
            yield record.run, f"its boot already had a visit of {before[1]} in block {before[0]}"
        elif boots.setdefault(visit, boot) != boot:
            yield record.run, "another run of its visit was made in a different boot"


def _visit(record: RunRecord) -> Visit | None:
    place = record.trial
    return None if place is None or place.block is None else (place.block, place.arm)


def _is_whole(record: RunRecord) -> bool:
    return not record.exit.interrupted
