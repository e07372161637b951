# SPDX-License-Identifier: Apache-2.0
"""What is watched as lines for a terminal."""

from __future__ import annotations

import msgspec

from ktrial.recordings.watching import MachineView, TracedEvent, WatchEnded, doubts
from ktrial.watch.record.text import HEADER, stretch, summary
from tests.support.written_recordings import START_NS, TAIL, TRACE

COLUMNS = {"pressure.memory.some": 1_000_000, "memory.MemAvailable": 8 << 30}


def seen(at_s: float, **columns: int) -> MachineView:
    return MachineView(
        at_ns=START_NS + round(at_s * 1e9),
        started_ns=START_NS,
        cpu_ns=round(at_s * 5e6),
        bytes=100,
        lost=0,
        columns={**COLUMNS, **{name.replace("_some", ".some"): value for name, value in columns.items()}},
        events=(),
    )


def test_a_stretch_has_its_pressures_and_the_longest_events_in_80_columns() -> None:
    after = seen(10)
    after.columns["pressure.memory.some"] = 1_500_000
    hostile = TracedEvent(
        kind="direct-reclaim", begin_ns=START_NS + 10**9, length_ns=8_000_000, pid=7, thread="a\x1b[2Jb<i>", victim=True
    )
    short = TracedEvent(kind="block-io", begin_ns=START_NS, length_ns=1000, device="vda")
    text = stretch(seen(5), after, [short, hostile])
    first, second = text.splitlines()
    assert first.split() == ["10", "s", "-", "10.0%", "-", "8", "GiB", "2", "0", "0.50%"]
    assert second.strip().startswith("1.000 s: direct-reclaim 8.0 ms of a")
    assert "\x1b" not in text
    assert second.endswith("(7), the frame thread")
    assert max(map(len, (HEADER, first))) <= 80


def test_the_sum_tells_cost_size_counts_and_doubts() -> None:
    checks = [{"what": "direct-reclaim", "counter": "vmstat.allocstall", "seen": 0, "counted": 300}]
    ended = msgspec.convert({**TAIL, "trace": {**TRACE, "checks": checks}}, WatchEnded)
    text = summary(ended, "my flight/a.ktr", doubts(ended, {}), 0.02, 80)
    assert text.endswith("\n\nnext: ktrial diagnose 'my flight'\n")
    assert "the agent took 0.50% of one CPU, ktrial itself 1.00%" in text
    assert "the agent took 0.50% of one CPU\n" in summary(ended, "a.ktr", (), None, 80)
    assert "1.72 MiB an hour" in text
    assert "direct-reclaim             2       0.009 s       5.00 ms" in text
    assert "**!** direct-reclaim: 0 events were traced" in text
