# SPDX-License-Identifier: Apache-2.0
"""The agent's `pagefault`: how fast the kernel provides pages of newly mapped memory."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, per_second
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.bench.outcomes import rate
from ktrial.kit.outcome import Measurement

_BLIND = "Includes the time of mapping and unmapping. The memory is free: reclaim under pressure is not seen."
_FAULTS = rate(
    "fault-rate",
    "1/s",
    "[More|Fewer] page faults are served per second: memory is usable [sooner|later].",
    f"{_BLIND} Huge pages are disabled.",
    (100.0, 1e9),
    headline=True,
)
_PAGES = rate(
    "page-rate",
    "1/s",
    "[More|Fewer] pages become usable per second.",
    f"{_BLIND} One page fault may provide many pages.",
    (100.0, 1e11),
    headline=True,
)
_PARAMETERS = {"bytes": 64 << 20, "threads": 1, "duration_s": 5.0}


def _pages(reply: LoadReply) -> tuple[Measurement | None, ...]:
    return (per_second(reply, "page-rate", "pages"),)


BENCHMARKS = (
    LoadBenchmark(
        name="agent-pagefault",
        what="Page faults per second of threads that write to fresh memory, without huge pages.",
        load="pagefault",
        outcomes=(_FAULTS,),
        reader=lambda reply: (per_second(reply, "fault-rate", "faults"),),
        fixed={"backing": "anonymous", "huge_pages": "never"},
        parameters=_PARAMETERS,
    ),
    LoadBenchmark(
        name="agent-pagefault-huge",
        what="Pages per second of threads that write to fresh memory with huge pages requested.",
        load="pagefault",
        outcomes=(_PAGES,),
        reader=_pages,
        fixed={"backing": "anonymous", "huge_pages": "always"},
        parameters=_PARAMETERS,
    ),
    LoadBenchmark(
        name="agent-pagefault-mixed",
        what="Pages per second of a thread that writes to fresh memory with huge pages requested for a part of it.",
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
