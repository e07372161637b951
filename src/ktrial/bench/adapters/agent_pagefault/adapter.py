# SPDX-License-Identifier: Apache-2.0
"""The agent's `pagefault`: how fast memory that was mapped is made usable."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, per_second
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.kit.outcome import Measurement, Outcome

_BLIND = "Holds the time of mapping and unmapping. Memory that is free: reclaim under pressure is not seen."
_FAULTS = Outcome(
    name="fault-rate",
    unit="1/s",
    direction="higher",
    kind="rate",
    low=100.0,
    high=1e9,
    better="More page faults were served in a second: memory is there sooner.",
    worse="Fewer page faults were served in a second: memory is there later.",
    blind_spots=f"{_BLIND} Huge pages are declined.",
    headline=True,
)
_PAGES = Outcome(
    name="page-rate",
    unit="1/s",
    direction="higher",
    kind="rate",
    low=100.0,
    high=1e11,
    better="More pages were made usable in a second.",
    worse="Fewer pages were made usable in a second.",
    blind_spots=f"{_BLIND} One page fault may serve many pages.",
    headline=True,
)
_PARAMETERS = {"bytes": 64 << 20, "threads": 1, "duration_s": 5.0}


def _faults(reply: LoadReply) -> tuple[Measurement | None, ...]:
    return (per_second(reply, "fault-rate", "faults"),)


def _pages(reply: LoadReply) -> tuple[Measurement | None, ...]:
    return (per_second(reply, "page-rate", "pages"),)


BENCHMARKS = (
    LoadBenchmark(
        name="agent-pagefault",
        what="Page faults per second of threads that write to fresh memory, without huge pages.",
        load="pagefault",
        outcomes=(_FAULTS,),
        reader=_faults,
        fixed={"backing": "anonymous", "huge_pages": "never"},
        parameters=_PARAMETERS,
    ),
    LoadBenchmark(
        name="agent-pagefault-huge",
        what="Pages per second of threads that write to fresh memory for which huge pages are asked.",
        load="pagefault",
        outcomes=(_PAGES,),
        reader=_pages,
        fixed={"backing": "anonymous", "huge_pages": "always"},
        parameters=_PARAMETERS,
    ),
    LoadBenchmark(
        name="agent-pagefault-mixed",
        what="Pages per second of a thread that writes to fresh memory of which a part asks for huge pages.",
        load="pagefault",
        outcomes=(_PAGES,),
        reader=_pages,
        fixed={"backing": "anonymous"},
        parameters={**_PARAMETERS, "duration_s": 0.5, "huge_pages": "half", "io_priority": None},
    ),
    LoadBenchmark(
        name="agent-pagefault-file",
        what="Pages per second of threads that read a mapped file whose content is in the page cache.",
        load="pagefault",
        outcomes=(_PAGES,),
        reader=_pages,
        fixed={"backing": "file", "huge_pages": "system"},
        parameters={**_PARAMETERS, "directory": "/var/tmp"},
    ),
)
