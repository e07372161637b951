# SPDX-License-Identifier: Apache-2.0
"""Logs that sample the frame rate: which rows count, for how long each stands, and what is refused."""

from __future__ import annotations

import pytest

from ktrial.kit.errors import BadInput, BadRun
from ktrial.recordings.frames.mangohud import SampledLog, read_mangohud
from ktrial.recordings.frames.samples import is_afterburner, is_telemetry, read_afterburner, read_telemetry
from ktrial.recordings.frames.statistics import FrameSamples, sampled_statistics
from ktrial.watch.frames import read_log

COLUMNS = "timestamp,rel_s,fps,frame_time_ms,cpu_time_ms,gpu_time_ms,sim_time_s,paused"


def telemetry(*rows: tuple[float, float, int]) -> bytes:
    """Rows of a moment, a frame time in milliseconds, and whether the simulator is paused."""
    lines = [f"{1.79e9 + at:.3f},{at:.2f},0.0,{frame_ms:.2f},0.00,0.00,1.0,{paused}" for at, frame_ms, paused in rows]
    return "\n".join((COLUMNS, *lines, "")).encode()


def afterburner(*values: str, names: str = "GPU usage ,Framerate ", clock: str = "23:59:5{}") -> bytes:
    stamp = "21-11-2026 10:00:00"
    head = (f"00, {stamp}, Hardware monitoring log v1.6 ", f"01, {stamp}, A card", f"02, {stamp}, {names}")
    rows = (f"80, 21-11-2026 {clock.format(at)}, 97.000 ,{value} " for at, value in enumerate(values))
    return "\r\n".join((*head, f"03, {stamp}, 0 ,°C ", *rows, "")).encode("latin-1")


def values(samples: FrameSamples, below_fps: float | None = None) -> dict[str, float]:
    return {one.outcome: one.value for one in sampled_statistics(samples, below_fps)}


def test_a_rate_counts_for_the_time_until_the_next() -> None:
    samples = read_telemetry(telemetry((0.0, 10.0, 0), (3.0, 50.0, 0), (4.0, 50.0, 0)))
    assert samples.stood_s == (3.0, 1.0, 3.0), "the last one as long as most do"
    assert values(samples)["sampled-fps"] == pytest.approx((3 * 100 + 20 + 3 * 20) / 7)


def test_paused_and_empty_samples_are_left_out_and_counted() -> None:
    samples = read_telemetry(telemetry((0.2, 20.0, 0), (0.4, 90.0, 1), (0.6, 0.0, 0), (0.8, 50.0, 0)))
    assert samples.fps == (50.0, 20.0)
    assert samples.notes == ("2 of 4 samples left out: paused, or no frame",)
    assert values(samples)["slow-sample-share"] == 0.5
    assert values(samples, 15.0)["slow-sample-share"] == 0.0


def test_the_rates_of_afterburner_are_weighed_alike() -> None:
    data = afterburner("N/A", "60.000", "40.000", "")
    assert (is_afterburner(data), is_telemetry(data)) == (True, False)
    samples = read_afterburner(data)
    assert (samples.fps, samples.stood_s) == ((60.0, 40.0), (1.0, 1.0))
    assert (samples.attributes, samples.version) == ({"gpu": "A card"}, "v1.6")
    assert samples.notes == ("2 of 4 samples without a frame rate are left out",)
    assert values(samples) == {"sampled-fps": 50.0}


def test_logs_that_ended_before_their_first_sample_are_none() -> None:
    """As in a published log: begun three times within a minute, once cut in its heads, once with a single line."""
    alone = b"00, 21-11-2026 10:00:12, Hardware monitoring log v1.6 \r\n"
    ended = afterburner().replace(b"A card", b"Another")
    data = ended + alone + afterburner("60", "40")
    assert read_afterburner(data) == read_afterburner(afterburner("60", "40"))
    assert read_afterburner(data + alone + afterburner()).fps == (60.0, 40.0)
    with pytest.raises(BadRun, match="hml:6: a second log begins here"):
        read_afterburner(afterburner("60") + alone + data, "a.hml")


@pytest.mark.parametrize(
    "data, message",
    [
        (
            afterburner("60", names="GPU usage ,Frametime "),
            "a.hml:3: the log has no frame rates, because the column Framerate is missing",
        ),
        (afterburner("60") + afterburner("60"), "a.hml:6: a second log begins here"),
        (afterburner("60", clock="noon"), "is not a record with a time of day"),
        (afterburner("60,1"[:2], "x"), "a.hml:6: 'x' is not a decimal number (frames per second)"),
        (afterburner("60", names="A ,B ,Framerate "), "is not 3 values"),
        (b"00, x, Hardware monitoring log v1.6\n80, 10:00:00, 1\n", "its columns are not named yet"),
        (b"00, x, Hardware monitoring log v1.6\n", "no line 02 names its columns"),
    ],
)
def test_what_afterburner_cannot_have_written_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BadRun) as caught:
        read_afterburner(data, "a.hml")
    assert message in caught.value.message


def test_two_logs_in_one_file_are_refused() -> None:
    with pytest.raises(BadRun, match=r"x\.csv: rel_s goes backwards, because the file contains two logs"):
        read_telemetry(telemetry((5.0, 20.0, 0), (0.0, 20.0, 0)), "x.csv")


def test_a_table_without_its_columns_is_no_telemetry() -> None:
    """It was asked for by name: `--as frame-samples`."""
    with pytest.raises(BadRun, match=r"f:1: .*column 'rel_s'"):
        read_telemetry(b"time,fps\n1,60\n", "f")


def test_one_sample_is_no_mean() -> None:
    with pytest.raises(BadRun, match="a mean needs 2 samples of the frame rate, but the log has 1"):
        sampled_statistics(read_afterburner(afterburner("60")))


def test_only_samples_of_frames_can_be_slow() -> None:
    with pytest.raises(BadInput, match="cannot use --below-fps: the samples of this log are not single frames"):
        sampled_statistics(read_afterburner(afterburner("60", "50")), 30.0)


def test_a_sampled_log_of_mangohud_carries_its_mean() -> None:
    rows = [f"{fps},{1e6 / fps:.0f},5,{at}000000000" for at, fps in ((1, 90), (2, 60), (5, 40))]
    data = "\n".join(
        ("os,cpu,gpu,ram,kernel,driver,cpuscheduler", "a,b,c,d,e,f,g", "fps,frametime,cpu_load,elapsed", *rows, "")
    )
    with pytest.raises(SampledLog, match="sampled, not one row per frame") as caught:
        read_mangohud(data.encode())
    assert values(caught.value.samples) == {"sampled-fps": (60 + 3 * 40) / 4}
    report = read_log(data.encode(), "a.csv")
    assert (report.kind, report.frames, report.logged_s) == ("samples", 2, 4.0)
