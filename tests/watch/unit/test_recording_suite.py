# SPDX-License-Identifier: Apache-2.0
"""Tables and traces of the micro-stutter suite, with the columns that it writes."""

from __future__ import annotations

from math import isnan

import pytest

from ktrial.kit.errors import UnreadableOutput
from ktrial.recordings.formats import read_recording_file
from ktrial.recordings.model import Recording

BEGIN = 1764240000


def table(name: str, header: str, *rows: str) -> Recording:
    """A table whose rows are a second apart; a row may hold several lines of one moment."""
    lines = [f"{BEGIN + second}.000,{line}" for second, row in enumerate(rows) for line in row.split("\n")]
    return read_recording_file("\n".join((f"timestamp,{header}", *lines, "")).encode(), f"run/{name}.csv")


def values(recording: Recording, name: str) -> list[float]:
    return recording.series[name].values.tolist()


def test_growth_a_second_has_the_kernels_own_name() -> None:
    found = table("vmstat", "allocstall_s,wset_refault_file_s,nr_dirty", "12,7,100", "12,8,90")
    assert {name: series.kind for name, series in found.series.items()} == {
        "vmstat.allocstall": "rate",
        "vmstat.workingset_refault_file": "rate",
        "vmstat.nr_dirty": "gauge",
    }


def test_memory_is_in_bytes() -> None:
    found = table("mem", "total_mb,free_mb,available_mb,swap_used_mb,dirty_mb", "9,4000,8,1,50", "9,2,3,4,5")
    assert values(found, "memory.free") == [4000 * 2.0**20, 2 * 2.0**20]
    assert sorted(found.series) == ["memory.available", "memory.dirty", "memory.free", "memory.total", "swap.used"]


def test_pressure_of_ten_seconds_is_the_one_that_counts() -> None:
    found = table("psi", "cpu_some10,cpu_some60,mem_full10", "50,40,25", "60,41,0")
    assert values(found, "pressure.cpu.some") == [0.5, 0.6]
    assert values(found, "pressure.cpu.some.avg60") == [0.4, 0.41]
    assert values(found, "pressure.memory.full") == [0.25, 0]


def test_of_cpus_the_row_of_all_counts() -> None:
    found = table("cpu", "cpu_id,user,sys,steal", "all,20,5,1\n0,99,1,0", "all,30,5,2\n0,98,2,0")
    assert (values(found, "cpu.user"), values(found, "cpu.system")) == ([0.2, 0.3], [0.05, 0.05])
    assert values(found, "cpu.steal") == [0.01, 0.02]
    with pytest.raises(UnreadableOutput, match="a row 'all' for all CPUs"):
        table("cpu", "cpu_id,user", "0,20", "0,30")


def test_each_device_has_series_and_what_was_not_there_is_missing() -> None:
    found = table("io", "device,w_per_s,avg_w_lat_ms,io_util_pct", "sda,5,1,2\nsdb,1,30,9", "sda,6,1,3", "sdb,2,40,9")
    assert values(found, "disks.sdb.w_await")[::2] == pytest.approx([0.03, 0.04])
    assert isnan(values(found, "disks.sdb.w_await")[1])
    assert isnan(values(found, "disks.sda.busy")[2])
    assert values(found, "disks.sda.writes")[:2] == [5, 6]


def test_clocks_and_graphics() -> None:
    assert values(table("freq", "cpu0_mhz", "4700", "4000"), "frequency.policy0") == [4.7e9, 4e9]
    found = table("vram", "mem_used_mib,mem_total_mib,gpu_util_pct,perf_state", "1,2,70,P0", "1,2,80,P0")
    assert values(found, "gpu.0.busy") == pytest.approx([0.7, 0.8])
    assert values(found, "gpu.0.vram_total") == [2 * 2.0**20] * 2
    assert found.notes == ("run/vram.csv: columns without numbers left out: perf_state",)


def test_processes_tell_who_grew() -> None:
    found = table("proc", "pid,name,rss_mb", "7,game,100\n9,tiles,10", "9,tiles,20")
    game, tiles = found.usages
    assert (game.name, game.pid, tiles.name, tiles.pid) == ("game", 7, "tiles", 9)
    assert tiles.memory_bytes is not None
    assert tiles.memory_bytes.tolist() == [10 * 2.0**20, 20 * 2.0**20]
    assert tiles.times_s.tolist() == [0, 1]


def test_sampled_frames_stand_for_those_between() -> None:
    columns = "rel_s,fps,frame_time_ms,paused"
    found = table("xplane_telemetry", columns, "0,0,25,0", "1,0,25,0", "2,0,25,1", "3,0,0,0", "4,0,2000,0")
    assert found.frames is not None
    assert found.frames.stands_for is not None
    assert found.frames.ends_s.tolist() == [0, 1, 4], "paused, or without a frame"
    assert found.frames.stands_for.tolist() == [1, 40, 1]
    assert found.notes[0].startswith("0.75 frames a second were sampled")


TRACES = """Attaching 4 probes...
stdin:1:1-2: WARNING: Map full; can't update element.
23:59:58 KSWAPD_WAKE nid=0 order=3
23:59:59 pid=27901 comm=Main Thread reclaim_us=4173 nr_reclaimed=343
00:00:01 KSWAPD_SLEEP nid=0
00:00:02 dev=271581184 sector=8 lat_ms=11 nr_sector=8
00:00:03 dev=259:1 sector=8 lat_ms=12 nr_sector=16
00:00:04 pid=7 comm=a=b fence_wait_ms=6
WARNING: Lost 12 events

@start[27901]: 12345
00:00:05 pid=7 comm=cut off recl"""


def test_every_tracer_and_all_that_stands_around_its_lines() -> None:
    found = read_recording_file(TRACES.encode(), "trace.log")
    day_s = 86400.0
    kswapd, reclaim, *slow, fence = found.events
    assert (kswapd.kind, kswapd.begin_s, kswapd.duration_s) == ("kswapd", day_s - 2, 3.0)
    assert (reclaim.thread, reclaim.duration_s, reclaim.amount) == ("Main Thread", 0.004173, 343)
    assert [(one.device, one.duration_s) for one in slow] == [("259:0", 0.011), ("259:1", 0.012)]
    assert [one.amount for one in slow] == [4096, 8192]
    assert (fence.kind, fence.begin_s, fence.thread) == ("dma-fence", day_s + 4 - 0.006, "a=b")
    assert sum(source.lost for source in found.sources) == 12
    assert found.notes[1:] == (
        "trace.log: events are missing, because a map of bpftrace was full once",
        "trace.log: bpftrace lost 12 events",
        "trace.log: skipped 2 lines without events: banner 1, maps 1 (@start)",
    )


#: Lines that bpftrace 0.17.0 wrote at its end, and the banner that it writes from 0.24 on.
ENDING = """ERROR: Unknown error -1: couldn't set RLIMIT_MEMLOCK for bpftrace.
Attached 2 probes
hi
10:00:00 pid=7 comm=a reclaim_us=2000 nr_reclaimed=3
^C

@a[kworker/1:1H]: 1
@a[rustc]: 477
@h:
[0]                    2 |                                                    |
[2, 4)                 0 |                                                    |
[16K, 32K)           751 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

@k[
    get_vma_policy+0
    vma_alloc_folio_noprof+77
]: 1
@k[]: 662
@l:
(..., 0)               3 |                                                    |
[0, 1)               381 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

@s: count 756, average 21169, total 16004378
@: 1
bye
"""


def test_what_a_tracer_prints_beside_its_events_is_skipped_by_name() -> None:
    found = read_recording_file(ENDING.encode(), "trace.log")
    assert [event.kind for event in found.events] == ["direct-reclaim"]
    assert found.notes[-1] == (
        "trace.log: skipped 21 lines without events: banner 1, Ctrl-C 1, warnings 1, "
        "maps 9 (@a, @h, @k, @l, @s, @), histograms 5, stacks 2, other 2 (first on line 3: 'hi')"
    )


@pytest.mark.parametrize("banner", ["Attaching 1 probe...", "Attached 1 probe", "Attached 12 probes"])
def test_the_banner_alone_tells_a_log_of_bpftrace(banner: str) -> None:
    with pytest.raises(UnreadableOutput, match="no line reports one, and ktrial cannot tell what was traced"):
        read_recording_file(f"{banner}\n".encode(), "trace_fence.log")


@pytest.mark.parametrize(
    "line, message",
    [
        ("10:00:00 pid=7 comm=a reclaim_us=x", "is not HH:MM:SS pid=N"),
        ("10:00:00 dev=1 sector=1 lat_ms=-1 nr_sector=1", "is not HH:MM:SS pid=N"),
        ("24:00:00 KSWAPD_WAKE nid=0 order=0", "is not a time of day"),
    ],
)
def test_a_damaged_line_of_a_tracer_is_an_error(line: str, message: str) -> None:
    with pytest.raises(UnreadableOutput, match=message):
        read_recording_file(f"Attaching 1 probe...\n{line}\n".encode(), "trace.log")
