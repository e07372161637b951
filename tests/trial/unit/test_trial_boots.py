# SPDX-License-Identifier: Apache-2.0
"""One visit, one boot: what is refused, what is void, what a log is convicted of, and what a verdict holds for."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from ktrial.bench.guest_tools import EMULATED_CLOCK
from ktrial.bench.record import RunRecord
from ktrial.judge.model.log import ArmFound, BlockDrawn, BlockVoided, Event, RunEnded
from ktrial.kit.errors import Refused
from ktrial.machine.facts import Fact, FactBook
from ktrial.trial.arms.manual import Due
from ktrial.trial.outcome.scope import claimed, clock_of_host, refuse_elsewhere, scope_of, unvouched
from ktrial.trial.run.boots import boots_misused, cut_off, refuse_used_boot, visit_in
from tests.support.records import run_record
from tests.support.trials import protocol

Replicate = Literal["run", "boot"]
#: Whether it is a guest of ktrial's, and which hypervisor is seen; the first is one whose clock must be told.
PLACES = ((True, "qemu-tcg"), (True, "kvm"), (False, "qemu-tcg"), (False, "none"))


def made(run: int, arm: str, block: int | None, boot: str | None, *, interrupted: bool = False) -> RunRecord:
    record = run_record(run, arm, block, {"time_s": 1.0})
    assert record.trial is not None
    return msgspec.structs.replace(
        record,
        trial=msgspec.structs.replace(record.trial, boot_id=boot),
        exit=msgspec.structs.replace(record.exit, interrupted=interrupted),
    )


def log(*visits: tuple[int, str], replicate: Replicate = "boot", runs: int = 2) -> list[Event]:
    """A run for each; blocks are drawn as they come."""
    found: list[Event] = [protocol(cap=7, replicate=replicate, runs_per_visit=runs)]
    for number, (block, arm) in enumerate(visits, start=1):
        if not any(isinstance(event, BlockDrawn) and event.block == block for event in found):
            found.append(BlockDrawn(block=block, order=("case", "control")))
        found.append(RunEnded(run=number, block=block, arm=arm, measurements={"tool.time": 1.0}))
    return found


def due(block: int, arm: str, *, new_boot: bool = True) -> Due:
    fields: dict[str, Any] = {"visit": 1, "visits": 2, "expect": {}, "confirm": False, "instruction": "boot it"}
    return Due(trial="t-1", block=block, arm=arm, place=arm, new_boot=new_boot, **fields)


def test_a_boot_has_one_visit() -> None:
    records = [made(1, "case", None, "a"), made(2, "case", 1, "a"), made(3, "control", None, "b")]
    refuse_used_boot(due(1, "case"), records, "a")  # the same visit goes on
    refuse_used_boot(due(1, "control"), records, "b")  # only a warm-up so far
    refuse_used_boot(due(1, "control", new_boot=False), records, "a")
    with pytest.raises(Refused, match="this boot: it was already used for case in block 1") as error:
        refuse_used_boot(due(1, "control"), records, "a")
    assert error.value.hint == "reboot first: boot it; then  ktrial trial next t-1"
    with pytest.raises(Refused, match="cannot tell boots apart"):
        refuse_used_boot(due(1, "control"), records, None)
    assert visit_in(records, "b") is None


def test_a_visit_whose_boot_is_over_makes_its_block_void() -> None:
    half, records = (
        log((1, "case"), (1, "case"), (1, "control")),
        [
            made(1, "case", 1, "a"),
            made(2, "case", 1, "a"),
            made(3, "control", 1, "b"),
        ],
    )
    void = cut_off(half, records, "c")
    assert void == BlockVoided(
        block=1,
        arm="control",
        cause="boot",
        reason="the visit was cut off after 1 of 2 runs, and its boot is over",
    )
    assert cut_off(half, records, "b") is None  # it goes on in its boot
    assert cut_off([*half, void], records, "c") is None
    assert cut_off(half[:-1], records[:-1], "c") is None  # the visit of control has not begun
    assert cut_off(log((1, "case"), replicate="run"), records[:1], "c") is None


def test_an_interrupted_run_does_not_make_its_boot_one_of_the_visit() -> None:
    records = [made(1, "case", 1, "a", interrupted=True), made(2, "case", 1, "b")]
    assert cut_off(log((1, "case")), records, "b") is None


def test_a_log_is_convicted_of_boots_that_are_none() -> None:
    good = [made(1, "case", 1, "a"), made(2, "case", 1, "a"), made(3, "control", 1, "b"), made(4, "control", 1, "b")]
    events = log((1, "case"), (1, "case"), (1, "control"), (1, "control"))
    assert list(boots_misused(events, good)) == []
    shared = [*good[:2], made(3, "control", 1, "a"), made(4, "control", 1, "b")]
    assert list(boots_misused(events, shared)) == [(3, "its boot already had a visit of case in block 1")]
    split = [*good[:3], made(4, "control", 1, "c")]
    assert list(boots_misused(events, split)) == [(4, "another run of its visit was made in a different boot")]
    assert list(boots_misused(events, [made(1, "case", 1, None)])) == [(1, "its boot is unknown")]
    assert list(boots_misused(log((1, "case"), replicate="run"), shared)) == []
    void = BlockVoided(block=1, arm="control", cause="boot", reason="cut off")
    assert list(boots_misused([*events, void], split)) == []


@pytest.mark.parametrize(
    "replicate, boots, scope",
    [
        ("run", "aaaa", "on this boot of this machine"),
        ("run", "abab", "on this boot pair of this machine"),
        ("run", "abbb", "on these 2 boots of this machine"),  # both arms ran in one of them
        ("run", "abcd", "on these 4 boots of this machine"),
        ("boot", "aa", "on this boot of this machine"),
        ("boot", "abcd", "on this machine, across 4 boots"),
    ],
)
def test_what_a_verdict_holds_for(replicate: Replicate, boots: str, scope: str) -> None:
    arms = ("case", "control") * 2
    records = [made(run, arm, 1 + run // 2, boot) for run, (arm, boot) in enumerate(zip(arms, boots, strict=False))]
    assert scope_of(protocol(replicate=replicate), records, {}) == scope


def within(record: RunRecord, *, guest: bool, kind: str = "qemu-tcg") -> RunRecord:
    """The same run in another place."""
    facts = {"virtualisation.ktrial": Fact(value=guest), "virtualisation.kind": Fact(value=kind)}
    session = msgspec.structs.replace(record.session, machine={**record.session.machine, **facts})
    return msgspec.structs.replace(record, session=session)


@pytest.mark.parametrize("guest, place", [(True, "guest"), (False, "machine")])
def test_a_verdict_of_a_guest_says_so(guest: bool, place: str) -> None:
    runs = [made(1, "case", 1, "a"), made(2, "control", 1, "b")]
    records = [within(run, guest=guest) for run in runs]
    assert scope_of(protocol(replicate="run"), records[:1], {}) == f"on this boot of this {place}"
    assert scope_of(protocol(replicate="run"), records, {}) == f"on this boot pair of this {place}"
    assert scope_of(protocol(replicate="boot"), records, {}) == f"on this {place}, across 2 boots"


def test_what_the_clock_of_an_emulated_guest_means_is_told() -> None:
    run = made(1, "case", 1, "a")
    told = [clock_of_host([within(run, guest=guest, kind=kind)]) for guest, kind in PLACES]
    assert [[one.sentence for one in found] for found in told] == [[EMULATED_CLOCK], [], [], []]
    assert clock_of_host([run]) == ()


def test_a_trial_goes_on_where_it_began() -> None:
    run = made(1, "case", 1, "a")
    for guest in (True, False):
        began = within(run, guest=guest).session
        refuse_elsewhere("t", began, FactBook({"virtualisation.ktrial": Fact(value=guest)}))
        why = "outside of a guest: it began in one" if guest else "in a guest: it began outside of one"
        with pytest.raises(Refused, match=f"cannot resume t {why}"):
            refuse_elsewhere("t", began, FactBook({"virtualisation.ktrial": Fact(value=not guest)}))
    refuse_elsewhere("t", run.session, FactBook({}))


def test_what_a_person_vouches_for_is_told() -> None:
    found = [
        ArmFound(block=1, arm="case", by="person"),
        ArmFound(block=1, arm="case", by="person"),  # gone on with
        ArmFound(block=2, arm="case", by="person"),
        ArmFound(block=1, arm="control", by="facts"),
    ]
    (finding,) = claimed([protocol(), *found])
    assert (finding.kind, finding.level) == ("arm-claimed", "note")
    assert finding.values == {"case": 2.0}
    assert claimed([protocol(), found[-1]]) == ()


def test_a_run_before_which_nothing_was_found_is_told() -> None:
    events = log((1, "case"), (1, "control"))
    events.insert(2, ArmFound(block=1, arm="case", by="facts"))
    assert list(unvouched(events)) == [(2, "nothing shows that control was in force in block 1")]
