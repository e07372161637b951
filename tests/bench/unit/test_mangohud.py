# SPDX-License-Identifier: Apache-2.0
"""Logs of MangoHud: recorded ones of three releases, and what is refused."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import BadRun, UnreadableOutput
from ktrial.recordings.frames.mangohud import is_mangohud, read_mangohud
from ktrial.recordings.frames.statistics import frame_statistics

GOLDEN = Path(__file__).parents[2] / "golden" / "frames"
CASES = sorted(path for path in GOLDEN.iterdir() if path.is_dir())
GOOD = [case for case in CASES if "error" not in json.loads((case / "expected.json").read_text())]
BAD = [case for case in CASES if case not in GOOD]
HEAD = b"os,cpu,gpu,ram,kernel,driver,cpuscheduler\nDebian,AMD,llvmpipe,1,6.1,Mesa,performance\n"


def data(case: str) -> bytes:
    return (GOLDEN / case / "input").read_bytes()


def log(*rows: str, columns: str = "fps,frametime,cpu_load,elapsed", head: bytes = HEAD) -> bytes:
    """A log made by hand."""
    return head + "\n".join((columns, *rows, "")).encode()


ROWS = [f"100,10,5,{number * 10_000_000}" for number in range(1, 6)]


def test_three_releases_are_covered() -> None:
    assert {case.name.partition("-")[0] for case in GOOD} == {"0.6.8", "0.7.2", "0.8.4"}


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_recorded_log(case: Path) -> None:
    wanted: dict[str, Any] = json.loads((case / "expected.json").read_text())
    content = (case / "input").read_bytes()
    assert is_mangohud(content)
    found = read_mangohud(content, "input")
    assert (found.version, found.frame_time_unit) == (wanted["version"], wanted["unit"])
    assert not found.cut_off
    assert found.system["kernel"].startswith("6.18")
    statistics = frame_statistics(found.frame_times_s)
    assert statistics.frames == wanted["frames"]
    values = {one.outcome: one.value for one in statistics.measurements}
    assert {name: values[name] for name in wanted["measurements"]} == pytest.approx(wanted["measurements"], rel=1e-7)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_recorded_log_that_is_refused(case: Path) -> None:
    with pytest.raises(BadRun) as caught:
        read_mangohud((case / "input").read_bytes(), "input")
    assert json.loads((case / "expected.json").read_text())["error"] in caught.value.message
    assert caught.value.message.startswith("input")
    assert caught.value.hint


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_says_how_it_was_derived(case: Path) -> None:
    why = (case / "why").read_text()
    assert len(why.split()) >= 5
    assert why.count("\n") == 1
    assert (case / "command").read_text().strip()


def test_sampled_logs_say_what_to_do() -> None:
    with pytest.raises(BadRun) as caught:
        read_mangohud(data("0.7.2-sampled"), "input")
    assert "log_interval=0" in (caught.value.hint or "")


def test_the_first_row_is_never_taken() -> None:
    rows = ["0.00088,1136536568,5,1000", *ROWS]
    assert read_mangohud(log(*rows)).frame_times_s == (0.01,) * 5


def test_a_comma_in_the_name_of_the_gpu_loses_no_frames() -> None:
    head = HEAD.replace(b"llvmpipe", b"Radeon RX 6600, 6600 XT")
    found = read_mangohud(log(*ROWS, head=head))
    assert found.system == {}
    assert found.system_row == "Debian,AMD,Radeon RX 6600, 6600 XT,1,6.1,Mesa,performance"
    assert len(found.frame_times_s) == 4


def test_a_log_without_system_and_with_other_line_ends() -> None:
    content = log(*ROWS, head=b"").replace(b"\n", b"\r\n")
    assert is_mangohud(content)
    assert len(read_mangohud(content).frame_times_s) == 4


def test_a_last_line_that_was_cut_off_is_left_out() -> None:
    content = data("0.8.4-capped")
    for cut in (1, 3, 30):
        found = read_mangohud(content[:-cut])
        assert found.cut_off
        assert found.frame_times_s == read_mangohud(content).frame_times_s[:-1]


def test_microseconds_and_milliseconds_are_told_apart_by_fps() -> None:
    in_us = [f"100,10000,5,{number * 10_000_000}" for number in range(1, 6)]
    assert read_mangohud(log(*in_us)).frame_times_s == read_mangohud(log(*ROWS)).frame_times_s
    with pytest.raises(BadRun, match="cannot determine the unit of frametime"):
        read_mangohud(log(*[row.replace("100,10,", "100,100,") for row in ROWS]))


@pytest.mark.parametrize(
    "content, error",
    [
        (log(*ROWS[:2], "nan,10,5,30000000"), r"log:6: 'nan' is not a decimal number \(frames per second\)"),
        (log(*ROWS[:2], "100,inf,5,30000000"), r"log:6: 'inf' is not a decimal number \(a frame time\)"),
        (log(*ROWS[:2], "100,-10,5,30000000"), r"log:6: '-10' is not a finite number of 0 or more \(a frame time\)"),
        (log(*ROWS[:2], "100,0,5,30000000"), r"log:6: .* its frame time or fps is 0"),
        (log(*ROWS[:2], "100,10,5,-3"), r"log:6: '-3' is not a whole number \(elapsed nanoseconds\)"),
        (log(*ROWS[:2], "100,10,5,15000000"), r"log:6: .* elapsed goes backwards"),
        (log(*ROWS[:2], "100,10,5"), r"log:6: .* it has 3"),
        (log(*ROWS[:2], "100,0,10,0,5,30000000"), r"log:6: 6 values for 4 columns, probably because of decimal commas"),
        (log(*ROWS, columns="fps,frametime,fps,elapsed"), r"log:3: .* fps appears twice"),
        (log(*ROWS, columns="fps,cpu_load,gpu_load,elapsed"), r"log:3: the log has no column frametime"),
        (log(*ROWS, "fps,frametime,cpu_load,elapsed"), r"log:9: a second log begins here"),
        (log(ROWS[0]), "fewer than two rows"),
        (log(), "fewer than two rows"),
        (HEAD, "no line names the columns fps and frametime"),
        (b"", "it is empty"),
        (b"\0\1", "binary"),
        (b"os,cpu,gpu\xff\n", "UTF-8"),
    ],
)
def test_bad_input_has_one_clear_message(content: bytes, error: str) -> None:
    with pytest.raises(BadRun, match=error):
        read_mangohud(content, "log")


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=400) | st.text(max_size=400).map(lambda text: HEAD + text.encode()))
def test_arbitrary_bytes(content: bytes) -> None:
    survives(content)


@settings(max_examples=150, deadline=None)
@given(case=st.sampled_from(["0.6.8-capped", "0.8.4-capped", "0.7.2-versioned"]), seed=st.integers(0, 2**32))
def test_mutated_logs(case: str, seed: int) -> None:
    chance = random.Random(seed)
    content = bytearray(data(case))
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(content))
        match chance.randrange(4):
            case 0:
                content[at] = chance.choice(b"0123456789.,-+e\nnaif \0\xff")
            case 1:
                del content[at : at + chance.randint(1, 60)]
            case 2:
                content[at:at] = content[chance.randrange(len(content)) :][:60]
            case _:
                content = content[: max(1, at)]
    survives(bytes(content))


def survives(content: bytes) -> None:
    """Sane frame times, or a declared error with a short message; nothing else ever."""
    try:
        found = read_mangohud(content, "here")
    except BadRun as error:
        assert re.match(r"here[: ]", error.message), error.message
        assert len(error.message) < 1000
        assert not isinstance(error, UnreadableOutput) or error.wanted
        return
    assert all(math.isfinite(time_s) and time_s > 0 for time_s in found.frame_times_s)
