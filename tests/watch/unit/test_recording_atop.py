# SPDX-License-Identifier: Apache-2.0
"""Lines of atop -P, made after its manual page; the system part records real ones."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import BadRun
from ktrial.recordings.atop import is_atop, is_atop_raw, read_atop
from ktrial.recordings.formats import read_recording_file

EPOCH = 1_760_000_000


def sample(second: int, interval: int = 10, *, stalls: int = 0, rss_kib: int = 1000, host: str = "box") -> str:
    head = f"{host} {EPOCH + second} 2025/10/09 08:53:{second % 60:02d} {interval}"
    lines = (
        f"CPU {head} 100 2 100 300 0 1500 60 0 0 40 0 2000 100 0 0",
        f"MEM {head} 4096 1000000 5000 2000 100 300 77 200 0 0 0 0 2097152 0 0",
        f"SWP {head} 4096 2000 1500 0 0 0",
        f"PAG {head} 4096 900 {stalls} 0 20 30 0",
        f"PSI {head} y 1.0 1.0 1.0 500000 2.0 2.0 2.0 1000000 0 0 0 250000 0 0 0 0 0 0 0 0",
        f"DSK {head} sda 5000 100 800 200 1600 0 0 0 0",
        f"PRM {head} 7 (Main (x) Thread) S 4096 90000 {rss_kib} 10 0 0 1 2 3 4 5 0 7 y 0",
        f"PRM {head} 8 (Main (x) Thread) S 4096 90000 {rss_kib} 10 0 0 1 2 3 4 5 0 7 n 0",
        f"NET {head} upper 1 2 3 4 5 6 7 8",
        "SEP",
    )
    return "\n".join(lines) + "\n"


def log(*parts: str) -> bytes:
    return "".join(("RESET\n", sample(0, 99_999), *parts)).encode()


def test_series_are_those_of_the_kernel_and_what_was_since_boot_is_left_out() -> None:
    data = log(sample(10), sample(20, stalls=50, rss_kib=3000))
    assert is_atop(data)
    found = read_recording_file(data, "atop.txt")
    assert (found.length_s, found.unix_at_zero_s) == (10.0, EPOCH + 10)
    last = {name: series.values[-1] for name, series in found.series.items()}
    assert last["vmstat.allocstall"] == 5.0
    assert last["cpu.steal"] == pytest.approx(0.02)
    assert last["memory.free"] == 5000 * 4096
    assert last["swap.used"] == 500 * 4096
    assert last["pressure.cpu.some"] == pytest.approx(0.05)
    assert last["pressure.memory.full"] == pytest.approx(0.025)
    assert last["disks.sda.written"] == pytest.approx(1600 * 512 / 10)
    (process,) = found.usages
    assert (process.name, process.pid) == ("Main (x) Thread", 7)
    assert process.memory_bytes is not None
    assert process.memory_bytes.tolist() == [1000 * 1024, 3000 * 1024]
    assert found.machine["nodename"] == "box"
    assert found.gaps == ()


def test_a_step_of_the_clock_and_a_suspend_are_told_and_time_goes_on() -> None:
    parts = [sample(10 * one) for one in range(1, 6)]
    stepped = [sample(10 * one - 3600) for one in range(6, 9)]
    slept = [sample(10 * one + 4000, 7610 if one == 9 else 10) for one in range(9, 12)]
    found = read_atop(log(*parts, *stepped, *slept))
    assert [gap.kind for gap in found.gaps] == ["clock-step", "missing"]
    assert "stepped by -3600 s" in found.gaps[0].why
    times = next(iter(found.series.values())).times_s
    assert times[5] == pytest.approx(50.0)
    assert all(after > before for before, after in itertools.pairwise(times))


def test_a_boot_within_it_is_said_and_a_sample_without_an_end_is_left_out() -> None:
    data = log(sample(10), sample(20)) + ("RESET\n" + sample(30, 20) + sample(40) + sample(50)[:-4]).encode()
    found = read_atop(data)
    assert any("restarted" in note for note in found.notes)
    assert any("is incomplete" in note for note in found.notes)
    assert len(next(iter(found.series.values())).values) == 3


@pytest.mark.parametrize(
    "data, says",
    [
        (log(), "fewer than two samples"),
        (log(sample(10), sample(20, host="other")), "of one host"),
        (log(sample(10).replace(" 900 0 0 ", " 900 "), sample(20)), "values at the end of a line of PAG"),
        (log(sample(10).replace("4096 900", "4096 nine"), sample(20)), "a value of PAG"),
        (log(sample(10), "what is this\n", sample(20)), "a label, host"),
        (log(*(sample(one % 2 * 50 + one) for one in range(1, 60))), "its clock does not advance at sample 2"),
    ],
)
def test_what_is_not_as_atop_prints_it_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(BadRun) as raised:
        read_atop(data, "log.txt")
    assert says in str(raised.value.message)


def test_a_raw_log_is_told_by_its_first_bytes() -> None:
    assert is_atop_raw(bytes.fromhex("efbeedfe0208"))
    assert not is_atop_raw(log(sample(10)))
    assert not is_atop(b"CPU usage\n")


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 3000), text=st.text(max_size=6))
def test_damage_is_refused_or_read_but_never_crashes(at: int, text: str) -> None:
    data = log(sample(10), sample(20), sample(30)).decode()
    place = at % len(data)
    try:
        read_atop((data[:place] + text + data[place + 3 :]).encode("utf-8", "surrogatepass"))
    except BadRun as error:
        assert error.message
