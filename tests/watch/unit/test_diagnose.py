# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from array import array
from functools import cache
from typing import Any

import msgspec
import pytest

from ktrial.kit.errors import BadInput
from ktrial.recordings.model import CrossCheck, Event, Gap, Recording, Series, Source, Usage
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.watch.diagnosis.diagnose import diagnose
from ktrial.watch.diagnosis.model import Diagnosis
from ktrial.watch.diagnosis.proposals import with_proposals
from ktrial.watch.diagnosis.symptoms import Sign, Symptom, load_symptoms
from ktrial.watch.diagnosis.text import diagnoses_text, diagnosis_text, screen_text
from tests.support.machine import FakeMachine
from tests.support.recordings import recording

CATALOG = load_catalog()
SYMPTOMS = load_symptoms(CATALOG)
FILES = {
    "/proc/sys/vm/min_free_kbytes": "67584\n",
    "/proc/sys/vm/watermark_scale_factor": "10\n",
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/page-cluster": "0\n",
}
FACTS = {
    "memory.zones": [{"node": 0, "zone": "Normal", "managed_pages": 4_000_000}],
    "memory.page_bytes": 4096,
    "memory.total": 16_384_000_000,
}


@cache
def planted(cause: str | None, *, shuffled: bool = False) -> tuple[Recording, Diagnosis]:
    """A simulated recording and what is found in it."""
    made = recording(11, cause, shuffled=shuffled)
    return made, diagnose(made, SYMPTOMS)


def named(found: Diagnosis) -> list[str]:
    return [cause.id for cause in found.named]


def test_a_planted_cause_is_named_alone_and_at_other_times_not() -> None:
    assert named(planted("direct-reclaim")[1]) == ["direct-reclaim"]
    shuffled = planted("direct-reclaim", shuffled=True)[1]
    assert named(shuffled) == []
    assert "No cause found" in diagnosis_text(shuffled, width=80)


def test_what_is_told_of_a_cause() -> None:
    made, diagnosis = planted("direct-reclaim")
    found, _ = with_proposals(diagnosis, SYMPTOMS, made, FakeMachine(FILES, FACTS), CATALOG)
    cause = found.named[0]
    assert cause.overlapping == found.stutters == 30
    assert cause.expected < 2
    assert cause.threads == {"Main Thread": cause.threads["Main Thread"]}
    assert cause.worst is not None
    assert "direct-reclaim by Main Thread" in cause.worst.seen
    assert [one.knob for one in found.proposals] == ["vm.watermark_scale_factor", "vm.min_free_kbytes"]
    assert found.proposals[1].value == "135168"
    assert found.proposals[1].try_line[:3] == ("ktrial", "try", "vm.min_free_kbytes=135168")
    text = diagnosis_text(found, width=80)
    assert max(len(line) for line in text.splitlines() if "ktrial try" not in line) <= 80


def test_one_screen_says_what_how_sure_an_example_and_what_to_try() -> None:
    made, diagnosis = planted("direct-reclaim")
    found, left_out = with_proposals(diagnosis, SYMPTOMS, made, FakeMachine(FILES, FACTS), CATALOG)
    text = screen_text(found, left_out, width=80)
    lines = text.splitlines()
    assert len(lines) <= 24
    assert max(len(line) for line in lines if "ktrial try" not in line) <= 80
    assert any(line.startswith("direct reclaim: 30 of 30 stutters, ") for line in lines)
    assert "(p <" in text or "(p 0" in text
    assert "Worst of direct reclaim: " in text
    assert [line.split()[1].rstrip(":") for line in lines if line.startswith("try ")] == [
        one.knob for one in found.proposals
    ]
    assert "could not be read" not in text
    unknown = msgspec.structs.replace(found, proposals=(msgspec.structs.replace(found.proposals[0], now=None),))
    assert "? could not be read: `sudo ktrial diagnose …` reads it." in screen_text(unknown, width=80)
    both = [(found, left_out)]
    assert "`--all` shows phases" in " ".join(diagnoses_text(both, width=80, everything=False).split())
    assert diagnoses_text(both, width=80) == diagnosis_text(found, left_out, width=80)
    nothing = planted("direct-reclaim", shuffled=True)[1]
    assert "No cause found" in screen_text(nothing, width=80)


def test_what_was_watched_is_measured_by_what_counts_its_cause() -> None:
    made, diagnosis = planted("direct-reclaim")
    watched = msgspec.structs.replace(made, command=("/opt/game", "a b"))
    found, _ = with_proposals(diagnosis, SYMPTOMS, watched, FakeMachine(FILES, FACTS), CATALOG)
    session = ("--suite", "watch", "--primary", "allocation-stalls", "-p", "program=/opt/game 'a b'")
    assert {one.try_line[3:] for one in found.proposals} == {session}
    found, _ = with_proposals(diagnosis, SYMPTOMS, made, FakeMachine(FILES, FACTS), CATALOG)
    assert {one.try_line[3:] for one in found.proposals} == {("--suite", "memory-pressure")}


def test_every_cause_that_overlaps_a_stutter_has_its_worst_example_and_whom_it_hit() -> None:
    found = planted("direct-reclaim", shuffled=True)[1]
    told = [cause for cause in found.causes if cause.overlapping]
    assert told
    assert not found.named
    text = diagnosis_text(found, width=80)
    assert max(len(line) for line in text.splitlines()) <= 80
    for cause in told:
        assert f"Worst of {cause.name}: " in text
    lines = [line.split() for line in text.splitlines() if line.startswith(("  late ", "  active "))]
    assert [words[0] for words in lines] == ["late", "active"] * len(told)
    late, at_work = (lines[at][-1] for at in (0, 1))
    assert len(late) == len(at_work) == 60
    assert late.strip(".") == "#" * late.count("#")
    assert any(one == other == "#" for one, other in zip(late, at_work, strict=True))


def test_pictures_show_when_a_cause_was_at_work_and_no_longer() -> None:
    found = planted("direct-reclaim")[1]
    worst = found.named[0].worst
    assert worst is not None
    assert all(end_s - begin_s < 0.1 for begin_s, end_s in worst.spans)
    lane = next(lane for lane in found.lanes if lane.cause == "direct-reclaim")
    assert min(end_s - begin_s for begin_s, end_s in lane.spans) < 0.05


def test_a_remedy_that_is_in_force_or_cannot_be_read_is_not_proposed() -> None:
    made, diagnosis = planted("vmstat.pswpin")
    found, left_out = with_proposals(diagnosis, SYMPTOMS, made, FakeMachine(FILES, FACTS), CATALOG)
    assert [(one.knob, one.value) for one in found.proposals] == [("vm.swappiness", "30")]
    assert any("vm.page-cluster" in reason and "in force" in reason for reason in left_out)


def test_of_several_devices_the_slow_one_is_meant() -> None:
    made, diagnosis = planted("block-io")
    events = tuple(
        msgspec.structs.replace(event, device="sda" if place % 3 else "sdb") for place, event in enumerate(made.events)
    )
    here = FakeMachine({f"/sys/block/{disk}/queue/wbt_lat_usec": "2000\n" for disk in ("sda", "sdb")}, FACTS)
    found, left_out = with_proposals(diagnosis, SYMPTOMS, msgspec.structs.replace(made, events=events), here, CATALOG)
    assert [one.knob for one in found.proposals] == ["queue:wbt_lat_usec@sda"]
    assert any("queue:scheduler" in reason for reason in left_out)


def test_a_recording_without_frames_shows_what_was_at_work_and_says_so() -> None:
    found = diagnose(msgspec.structs.replace(planted("direct-reclaim")[0], frames=None), SYMPTOMS)
    assert found.named == ()
    assert "no frames" in found.findings[0]
    assert next(cause for cause in found.causes if cause.id == "direct-reclaim").active_share > 0
    assert "No cause found" not in diagnosis_text(found, width=80)


def test_too_few_stutters_name_nothing() -> None:
    found = diagnose(recording(15, "direct-reclaim", stutters=4), SYMPTOMS)
    assert found.named == ()
    assert any("too few" in finding for finding in found.findings)


def test_a_limit_that_everything_passes_is_refused() -> None:
    with pytest.raises(BadInput, match="too many stutters") as caught:
        diagnose(planted(None)[0], SYMPTOMS, limit_s=0.001)
    assert caught.value.hint == "use a --limit above 1 ms"


def test_doubts_of_the_recording_are_findings() -> None:
    whole = planted(None)[0]
    other = msgspec.structs.replace(
        whole,
        ended="cut-off",
        sources=(*whole.sources, Source(name="psi", state="absent", why="no /proc/pressure")),
        checks=(CrossCheck(what="direct-reclaim", seen=0, counted=900, agree=False),),
        gaps=(Gap(kind="suspend", begin_s=0.0, end_s=300.0, why="30 s asleep"),),
    )
    found = diagnose(other, SYMPTOMS)
    told = " ".join(found.findings)
    assert "cut off" in told
    assert "no /proc/pressure" in told
    assert "the kernel counted 900" in told
    assert "suspend" in told
    assert found.stutters == 0


def test_it_says_how_far_the_clocks_may_be_apart() -> None:
    whole = planted(None)[0]
    assert whole.frames is not None
    frames = msgspec.structs.replace(whole.frames, clock_error_s=0.01)
    told = msgspec.structs.replace(whole, frames=frames, clock_error_s=0.002, unix_at_zero_s=1_760_000_000.25)
    assert diagnose(told, SYMPTOMS).notes[0] == (
        "the ends of frames are on the recording's clock to within 12 ms; its zero is 1760000000.250 s after 1970"
    )
    exact = msgspec.structs.replace(told, frames=whole.frames, clock_error_s=0.0)
    assert "on the recording's clock exactly;" in diagnose(exact, SYMPTOMS).notes[0]


def test_who_grew_before_stutters() -> None:
    whole = recording(17, None, stutters=6)
    at = [one.begin_s for one in diagnose(whole, SYMPTOMS).episodes]
    assert at
    times = array("d", range(301))
    hog = array("d", (1e9 * sum(1 for begin_s in at if begin_s - 5 < second) for second in times))
    usages = (
        Usage(name="hog\x1b[2J", pid=7, times_s=times, memory_bytes=hog),
        Usage(name="steady", times_s=times, memory_bytes=array("d", (1e6 * second for second in times))),
    )
    found = diagnose(msgspec.structs.replace(whole, usages=usages), SYMPTOMS)
    assert [one.name for one in found.aggressors] == ["hog\x1b[2J (7)"]
    assert "\x1b" not in diagnosis_text(found, width=80)


def test_hostile_thread_names_do_not_steer_the_terminal() -> None:
    whole = planted("direct-reclaim")[0]
    events = tuple(msgspec.structs.replace(event, thread="<b>\x1b[31m\n'") for event in whole.events)
    found = diagnose(msgspec.structs.replace(whole, events=events), SYMPTOMS)
    text = diagnosis_text(found, width=80)
    assert "\x1b" not in text
    assert "<b>" in text


def test_events_win_over_counters_that_know_less() -> None:
    whole = planted(None)[0]
    quiet = Recording(
        name="r",
        begin_s=0.0,
        end_s=300.0,
        sources=whole.sources,
        series=whole.series,
        frames=whole.frames,
        events=(Event(kind="block-io", source="trace.block-io", begin_s=1.0, duration_s=0.001),),
    )
    found = diagnose(quiet, SYMPTOMS)
    standing = {cause.id: cause.standing for cause in found.causes}
    assert standing["direct-reclaim"] == "idle"
    assert standing["device-latency"] == "idle"
    assert standing["vram-exhausted"] == "unseen"


def test_a_drive_that_woke_up_is_named_rather_than_its_slow_requests() -> None:
    """Each request that woke it up is told as both, and one slow request as that alone."""
    whole = planted("block-io")[0]
    slow = [event for event in whole.events if event.kind == "block-io"]
    woken = [msgspec.structs.replace(event, kind="nvme-exit", source="trace.nvme-exit") for event in slow[1:]]
    sources = (*whole.sources, Source(name="trace.nvme-exit", state="active"))
    found = diagnose(msgspec.structs.replace(whole, events=(*whole.events, *woken), sources=sources), SYMPTOMS)
    assert named(found) == ["nvme-power-exit"]
    assert {cause.id: cause.standing for cause in found.causes}["device-latency"] == "with-another"


def test_a_share_of_a_neighbour_and_kinds_that_were_listened_to() -> None:
    times, full = array("d", range(301)), array("d", [8e9] * 301)
    used = array("d", (7.9e9 if second % 50 == 9 else 1e9 for second in range(301)))
    one: Any = {"source": "samples", "times_s": times}
    added = (
        Series(name="gpu.card0.vram_used", unit="B", kind="gauge", values=used, **one),
        Series(name="gpu.card0.vram_total", unit="B", kind="gauge", values=full, **one),
        Series(name="trace.oom.count", unit="count", kind="counter", values=array("d", bytes(8 * 301)), **one),
    )
    whole = planted(None)[0]
    series = {**whole.series, **{made.name: made for made in added}}
    found = diagnose(msgspec.structs.replace(whole, series=series), SYMPTOMS)
    by_id = {cause.id: cause for cause in found.causes}
    assert by_id["vram-exhausted"].active_share == pytest.approx(6 / 300, abs=0.01)
    assert by_id["out-of-memory"].standing == "idle"


def test_the_table_of_symptoms_is_checked() -> None:
    with pytest.raises(ValueError, match="x needs a sign or a happening"):
        Symptom(id="x", name="x", what="x", no_remedy="none")
    with pytest.raises(ValueError, match="either a remedy"):
        Symptom(id="x", name="x", what="x", sign=(Sign(series=("a",), above=1),))
    with pytest.raises(ValueError, match="one limit"):
        Sign(series=("a",), above=1, below=2)
