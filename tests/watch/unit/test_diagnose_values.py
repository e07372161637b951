# SPDX-License-Identifier: Apache-2.0
"""Proposals whose value comes from the recording: limits of the program's control group, an interrupt's CPUs, zram."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from ktrial.machine.reading import Reading
from ktrial.recordings.model import Event, GroupLimits, Recording, Series, SeriesKind, Served, Source
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.plans.resolve import check_words
from ktrial.watch.diagnosis.model import Cause, Diagnosis, Proposal
from ktrial.watch.diagnosis.proposals import with_proposals
from ktrial.watch.diagnosis.symptoms import load_symptoms
from tests.support.machine import FakeMachine

CATALOG = load_catalog()
SYMPTOMS = load_symptoms(CATALOG)
GROUP = "/user.slice/user-1000.slice/user@1000.service/app.slice/app-a\\x2db.scope"
PLACE = f"/sys/fs/cgroup{GROUP}"
MIB = 1 << 20
FACTS = {"memory.total": 8192 * MIB, "memory.page_bytes": 4096, "cpu.threads": 4, "cpu.online": [0, 1, 2, 3]}
#: A sample a second; stutters at 3 and 6.
TIMES = array("d", range(10))
LATE = ((2.9, 0.2), (5.9, 0.2))


def series(name: str, values: Sequence[float], label: str | None, kind: SeriesKind = "counter") -> Series:
    return Series(
        name=name,
        source="made",
        unit="count",
        kind=kind,
        times_s=TIMES[: len(values)],
        values=array("d", values),
        label=label,
    )


def recording(*told: Series, **more: object) -> Recording:
    whole = Recording(
        name="made",
        begin_s=0.0,
        end_s=10.0,
        sources=(Source(name="made", state="active"),),
        series={one.name: one for one in told},
        machine={"process": 7},
    )
    return msgspec.structs.replace(whole, **more)


def proposed(cause: str, made: Recording, machine: FakeMachine) -> tuple[tuple[Proposal, ...], str]:
    """What is proposed where that cause alone is named, and why the rest is not."""
    diagnosis = Diagnosis(
        name="made",
        length_s=10.0,
        frames=0,
        frame_kind=None,
        definition=None,
        stutters=2,
        late_share=None,
        per_hour=None,
        phases=(),
        told_by=(),
        causes=(Cause(id=cause, name=cause, what="", standing="named"),),
        unexplained=0,
        late=LATE,
    )
    found, left_out = with_proposals(diagnosis, SYMPTOMS, made, machine, CATALOG)
    for one in found.proposals:
        check_words(one.try_line[2:3], CATALOG)
    return found.proposals, "\n".join(left_out)


def limited(files: Mapping[str, str], event: str = "high", **more: object) -> tuple[Recording, FakeMachine]:
    """A group that met a limit of its memory."""
    made = recording(
        series(f"cgroup.memory_events.{event}", [0, 0, 3, 9], GROUP),
        series("cgroup.memory", [50 * MIB, 60 * MIB, 64 * MIB, 63 * MIB], GROUP, "gauge"),
        series("cgroup.swap", [0, 0, 16 * MIB, 10 * MIB], GROUP, "gauge"),
        groups=(GroupLimits(path=GROUP, memory_high=str(64 * MIB), memory_max=str(96 * MIB)),),
        **more,
    )
    return made, FakeMachine(files, FACTS)


def test_a_memory_limit_gets_what_the_group_held_and_a_quarter_more() -> None:
    found, left_out = proposed("memcg-limit", *limited({f"{PLACE}/memory.high": f"{64 * MIB}\n"}))
    assert [(one.knob, one.value, one.now) for one in found] == [
        (f"cgroup:memory.high@{GROUP[1:]}", str(100 * MIB), str(64 * MIB))
    ]
    start = f"echo $$ > '{PLACE}/cgroup.procs' && exec \"$@\""
    line = ("ktrial", "try", f"{found[0].knob}={100 * MIB}", "--", "sh", "-c", start, "sh", "YOUR-PROGRAM")
    assert found[0].try_line == line
    assert "80 MiB; a quarter is added" in found[0].why
    assert "cgroup:memory.max: no control group of the program reached its limit" in left_out


def test_the_limit_that_kills_is_raised_with_the_word_that_it_needs() -> None:
    found, _ = proposed("memcg-limit", *limited({f"{PLACE}/memory.max": f"{96 * MIB}\n"}, "max"))
    assert found[0].value == str(120 * MIB)
    assert found[0].try_line[3:5] == ("--yes-dangerous", "--")


@pytest.mark.parametrize(
    "is_there, group", [(True, f"{GROUP}/inner.scope"), (False, GROUP)], ids=["its group is there", "it is gone"]
)
def test_what_was_watched_is_started_in_its_own_group_or_in_the_one_with_the_limit(is_there: bool, group: str) -> None:
    files = {f"{PLACE}/memory.high": f"{64 * MIB}\n"}
    if is_there:
        files[f"{PLACE}/inner.scope/memory.high"] = "max\n"
    made, machine = limited(files, command=("/opt/game", "a b"))
    inner = GroupLimits(path=f"{GROUP}/inner.scope", memory_high="max")
    found, _ = proposed("memcg-limit", msgspec.structs.replace(made, groups=(inner, *made.groups)), machine)
    assert found[0].knob == f"cgroup:memory.high@{GROUP[1:]}"
    assert found[0].try_line[-5:] == (
        "-c",
        f"echo $$ > '/sys/fs/cgroup{group}/cgroup.procs' && exec \"$@\"",
        "sh",
        "/opt/game",
        "a b",
    )


@pytest.mark.parametrize("word", ["a\x1b[2J", "a\nrm x", "a\u202eb"])
def test_what_calls_itself_something_that_cannot_be_shown_is_not_to_be_pasted(word: str) -> None:
    files = {f"{PLACE}/memory.high": f"{64 * MIB}\n"}
    found, _ = proposed("memcg-limit", *limited(files, command=("/opt/game", word)))
    assert found[0].try_line[-1] == "YOUR-PROGRAM"


@pytest.mark.parametrize(
    "files, why",
    [
        ({}, "no longer exists"),
        ({f"{PLACE}/memory.high": "max\n"}, "no longer has a limit to raise (the value is max)"),
        ({f"{PLACE}/memory.high": f"{8192 * MIB}\n"}, "8 GiB, all of this machine's memory"),
    ],
)
def test_a_limit_that_is_not_there_is_not_raised(files: Mapping[str, str], why: str) -> None:
    found, left_out = proposed("memcg-limit", *limited(files))
    assert not found
    assert why in left_out


def test_a_recording_that_does_not_tell_the_group_says_so() -> None:
    made, machine = limited({f"{PLACE}/memory.high": f"{64 * MIB}\n"})
    found, left_out = proposed("memcg-limit", msgspec.structs.replace(made, groups=()), machine)
    assert not found
    assert f"the recording lacks the limits of {GROUP}; record again" in left_out


def test_limits_of_groups_of_version_1_are_left_to_the_user() -> None:
    made = recording(series("cgroup.memory_events.max", [0, 4], "memory:/jobs/game"))
    found, left_out = proposed("memcg-limit", made, FakeMachine({}, FACTS))
    assert not found
    assert "memory:/jobs/game, a cgroup of version 1; set the limit by hand" in left_out


def test_of_several_groups_the_one_whose_limit_was_met_is_meant() -> None:
    made = recording(
        series("cgroup.memory_events.high", [0, 0, 0, 0], GROUP),
        series("cgroup.above4.memory_events.high", [0, 1, 2, 3], "/user.slice"),
        series("cgroup.above4.memory", [40 * MIB] * 4, "/user.slice", "gauge"),
        groups=(GroupLimits(path=GROUP), GroupLimits(path="/user.slice", memory_high=str(40 * MIB))),
    )
    here = FakeMachine({"/sys/fs/cgroup/user.slice/memory.high": f"{40 * MIB}\n"}, FACTS)
    found, _ = proposed("memcg-limit", made, here)
    assert [(one.knob, one.value) for one in found] == [("cgroup:memory.high@user.slice", str(50 * MIB))]


@pytest.mark.parametrize(
    "held_s, value",
    [([0, 0.25, 0.5, 0.5], "100000 100000"), ([0, 3, 9, 9], "max 100000")],
)
def test_a_quota_is_raised_by_what_the_group_was_held_up(held_s: Sequence[float], value: str) -> None:
    made = recording(
        series("cgroup.cpu.nr_throttled", [0, 5, 10, 10], GROUP),
        series("cgroup.cpu.usage", [0, 0.25, 0.5, 9.0], GROUP),
        series("cgroup.cpu.throttled", held_s, GROUP),
        groups=(GroupLimits(path=GROUP, cpu_max="50000 100000"),),
    )
    found, left_out = proposed("cpu-quota", made, FakeMachine({f"{PLACE}/cpu.max": "50000 100000\n"}, FACTS))
    assert [(one.knob, one.value, one.now) for one in found] == [
        (f"cgroup:cpu.max@{GROUP[1:]}", value, "50000 100000")
    ], left_out


def stormy(cpus: Sequence[float], served: Mapping[str, int] | None, line: str = "24", **more: object) -> Recording:
    """Interrupts that come in the stutters, and where the frame thread ran."""
    storm = [0, 10, 20, 9020, 9030, 9040, 18040, 18050, 18060, 18070]
    return recording(
        series(f"interrupts.{line}", storm, "IO-APIC 24-edge eth0"),
        series("interrupts.LOC", [250 * at for at in range(10)], "Local timer interrupts"),
        series("threads.7.cpu", cpus, "Main Thread", "gauge"),
        interrupts=None if served is None else {line: Served(label="IO-APIC 24-edge eth0", cpus=served)},
        **more,
    )


HERE = {"/proc/irq/24/smp_affinity": "f\n", "/proc/irq/25/smp_affinity": "f\n"}


@pytest.mark.parametrize("served", [{"1": 9000, "0": 3}, None])
def test_the_busiest_interrupt_leaves_the_cpu_of_the_frames(served: Mapping[str, int] | None) -> None:
    found, left_out = proposed("interrupts", stormy([1.0] * 10, served), FakeMachine(HERE, FACTS))
    assert [(one.knob, one.value, one.now) for one in found] == [("irq:smp_affinity@irq24", "d", "f")], left_out
    assert "IO-APIC 24-edge eth0" in found[0].why


def test_a_thread_that_wanders_is_spared_on_the_cpu_it_uses_most() -> None:
    cpus = [0, 1, 2, 3, 3, 3, 0, 1, 2, 3]
    found, _ = proposed("interrupts", stormy(cpus, {"3": 9000}), FakeMachine(HERE, FACTS))
    assert found[0].value == "7"


def test_of_handlers_the_longest_counts() -> None:
    events = tuple(
        Event(kind="irq", source="made", begin_s=begin_s, duration_s=0.01, cpu=1, amount=25) for begin_s in (2.95, 5.95)
    )
    found, _ = proposed("interrupts", stormy([1.0] * 10, None, events=events), FakeMachine(HERE, FACTS))
    assert [one.knob for one in found] == ["irq:smp_affinity@irq25"]


MANAGED = Reading(data=b"f\n", mode=0o444)


@pytest.mark.parametrize(
    "made, machine, why",
    [
        (stormy([1.0] * 10, {"2": 9000}), FakeMachine(HERE, FACTS), "was handled by CPU 2"),
        (stormy([1.0] * 10, None), FakeMachine({}, FACTS), "does not exist on this machine"),
        (stormy([0.0] * 10, None), FakeMachine(HERE, {**FACTS, "cpu.online": [0]}), "no other CPU"),
        (stormy([], None), FakeMachine(HERE, FACTS), "lacks the CPUs of the frame thread"),
        (stormy([1.0] * 10, None, "RES"), FakeMachine(HERE, FACTS), "every CPU has one of its own"),
        (stormy([1.0] * 10, None), FakeMachine({"/proc/irq/24/smp_affinity": MANAGED}, FACTS), "the kernel manages it"),
    ],
)
def test_an_interrupt_that_cannot_be_moved_is_told(made: Recording, machine: FakeMachine, why: str) -> None:
    found, left_out = proposed("interrupts", made, machine)
    assert not found
    assert why in left_out


def test_a_mask_of_many_cpus_is_written_in_groups() -> None:
    here = FakeMachine({"/proc/irq/24/smp_affinity": "f,ffffffff\n"}, {**FACTS, "cpu.online": list(range(36))})
    found, _ = proposed("interrupts", stormy([1.0] * 10, {"1": 9}), here)
    assert found[0].value == "0000000f,fffffffd"


def test_where_memory_ran_out_swap_in_memory_is_proposed_once() -> None:
    here = FakeMachine({"/sys/class/zram-control/hot_add": "0\n"}, {**FACTS, "zram.devices": []})
    found, _ = proposed("out-of-memory", recording(), here)
    assert [(one.knob, one.value) for one in found] == [("zram:disksize", str(4096 * MIB))]
    assert found[0].try_line[-2:] == ("--suite", "memory-pressure")
    there = FakeMachine({"/sys/block/zram0/disksize": "1\n"}, {**FACTS, "zram.devices": [{"name": "zram0"}]})
    assert "this machine already has a zram device" in proposed("out-of-memory", recording(), there)[1]
