# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, BadRun, UnreadableOutput
from ktrial.recordings.formats import KINDS, read_recording_file
from ktrial.recordings.merge import together, with_offset

#: procps 4.0.2 (`vmstat -t 1`), cut to three rows.
VMSTAT = b"""procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
 3  0      0 13358300 137972 10092232    0    0  2037  8096  728 3465 74 13 13  0  0 2026-11-22 13:21:08
 2  1      8 13358300 137972 10092232   12    4     0    16  346   95 45  9 46  0  0 2026-11-22 13:21:09
 1  0      8 13358200 137972 10092232    0    0     0     0  346   95 45  9 43  0  3 2026-11-22 13:21:10
"""
SADF = {
    "sysstat": {
        "hosts": [
            {
                "nodename": "box",
                "release": "6.18",
                "statistics": [
                    {
                        "timestamp": {"date": "2026-11-22", "time": f"13:20:{second:02d}", "utc": 1, "interval": 1},
                        "cpu-load": [{"cpu": "all", "user": 12.5, "steal": 2.0}, {"cpu": "0", "user": 99}],
                        "paging": {"pgscand": 75000.0 * second, "pgscank": 10, "majflt": 1.5},
                        "memory": {"memfree": 1024},
                        "disk": [{"disk-device": "nvme0n1", "await": 36.0, "util-percent": 50}],
                        "psi": {"psi-mem": {"some_avg10": 25.0}},
                    }
                    for second in range(3)
                ],
            }
        ]
    }
}
MEM = b"epoch,MemAvailable,Dirty\n1760000000,4000,10\n1760000001,,20\n1760000002,3000,30\n"
RECLAIM = b"""Attaching 2 probes...
15:26:13 pid=27901 comm=Main Thread reclaim_us=4173 nr_reclaimed=343
15:26:15 pid=7 comm=a=b pid=1 x reclaim_us=20 nr_reclaimed=0
"""


def test_vmstat_without_the_mean_since_boot() -> None:
    found = read_recording_file(VMSTAT, "log")
    assert found.length_s == 1
    assert found.unix_at_zero_s == 1795353669
    assert list(found.series["swap.in"].values) == [12 * 1024, 0]
    assert list(found.series["cpu.steal"].values) == pytest.approx([0, 0.03])


def test_vmstat_without_moments_needs_its_interval() -> None:
    plain = b"\n".join(line.split(b" 2026")[0] for line in VMSTAT.splitlines())
    with pytest.raises(BadInput, match="the rows have no times") as caught:
        read_recording_file(plain, "log")
    assert "--interval 1s" in str(caught.value.hint)
    assert read_recording_file(plain, "log", interval_s=5).length_s == 5


def test_vmstat_with_nothing_but_the_mean_since_boot() -> None:
    for interval_s in (None, 5):
        with pytest.raises(UnreadableOutput, match="it has no row after the mean since boot"):
            read_recording_file(b"\n".join(VMSTAT.splitlines()[:3]) + b"\n", "log", interval_s=interval_s)


def test_sadf() -> None:
    found = read_recording_file(json.dumps(SADF).encode(), "sar.json")
    assert list(found.series["vmstat.pgscan_direct"].values) == [0, 75000, 150000]
    assert found.series["disks.nvme0n1.await"].values[1] == pytest.approx(0.036)
    assert found.series["pressure.memory.some"].values[0] == 0.25
    assert found.series["cpu.user"].values[2] == 0.125
    assert found.machine["nodename"] == "box"


def test_a_table_of_the_suite_keeps_what_is_missing_missing() -> None:
    found = read_recording_file(MEM, "run1/mem.csv")
    values = found.series["memory.available"].values
    assert values[0] == 4000 * 1024
    assert isnan(values[1])
    assert found.series["memory.dirty"].unit == "B"


def test_counters_of_the_suite_and_columns_that_are_none() -> None:
    data = b"t,allocstall_normal,pgsteal_direct,nr_dirty,note\n1760000000,5,9,3,x\n1760000001,8,2,1,y\n"
    found = read_recording_file(data, "vmstat.csv")
    kinds = {name: series.kind for name, series in found.series.items()}
    assert kinds == {
        "vmstat.allocstall_normal": "counter",
        "vmstat.pgsteal_direct": "rate",
        "vmstat.nr_dirty": "gauge",
    }
    assert any("left out: note" in note for note in found.notes)


def test_reclaim_lines_with_names_that_hold_anything() -> None:
    found = read_recording_file(RECLAIM, "reclaim.log")
    assert [event.thread for event in found.events] == ["Main Thread", "a=b pid=1 x"]
    assert found.events[0].duration_s == 0.004173
    assert found.events[0].amount == 343


def test_a_tracer_whose_lines_match_nothing_is_an_error() -> None:
    with pytest.raises(UnreadableOutput, match="is not HH:MM:SS"):
        read_recording_file(RECLAIM + b"15:26:16 pid=x comm=y reclaim_us=z\n", "reclaim.log")
    with pytest.raises(UnreadableOutput, match="a trace with events: no line reports one"):
        read_recording_file(b"Attaching 2 probes...\nLost 3 events\n", "reclaim.log", as_format="reclaim-lines")


def table(begin: int, end: int) -> bytes:
    return b"t,MemFree\n" + b"".join(b"%d,1\n" % second for second in range(begin, end, 10))


def test_parts_lie_on_one_clock_and_the_zone_is_found() -> None:
    midnight = 1795305600
    begin = midnight + 13 * 3600 + 20 * 60
    parts = [
        read_recording_file(table(begin, begin + 1200), "mem.csv"),
        read_recording_file(RECLAIM, "reclaim.log"),
    ]
    whole = together("run", parts)
    assert whole.unix_at_zero_s == begin
    assert whole.events[0].begin_s == pytest.approx(6 * 60 + 13 - 0.004173)
    with pytest.raises(BadInput, match="outside the others"):
        together("run", [read_recording_file(table(begin, begin + 60), "mem.csv"), parts[1]])
    long = read_recording_file(table(begin, begin + 20000), "mem.csv")
    with pytest.raises(BadInput, match="fits in"):
        together("run", [long, parts[1]])
    placed = together("run", [long, with_offset(parts[1], [long], 2 * 3600)])
    assert placed.events[0].begin_s == whole.events[0].begin_s


def test_parts_that_hold_the_same_are_refused() -> None:
    part = read_recording_file(MEM, "a/mem.csv")
    other = read_recording_file(MEM, "b/mem.csv")
    with pytest.raises(BadInput, match=r"a/mem.csv and b/mem.csv both contain"):
        together("run", [part, other])


def test_what_is_no_recording_is_refused() -> None:
    with pytest.raises(BadInput, match="unknown format of recordings"):
        read_recording_file(b"hello\n", "x.txt")
    with pytest.raises(BadInput, match="unknown format of recordings"):
        read_recording_file(b"hello\n", "x.txt", as_format="nope")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 700), junk=st.binary(max_size=12), place=st.integers(0, 700))
def test_damaged_files_are_read_or_refused(kind: str, cut: int, junk: bytes, place: int) -> None:
    data = {"vmstat": VMSTAT, "sadf": json.dumps(SADF).encode(), "suite-csv": MEM}.get(kind, RECLAIM)
    damaged = (data[:place] + junk + data[place:])[: max(cut, place)]
    try:
        found = read_recording_file(damaged, "mem.csv", as_format=kind)
    except (BadInput, BadRun):
        return
    assert found.series or found.events
