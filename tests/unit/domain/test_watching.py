# SPDX-License-Identifier: Apache-2.0
"""What speaks against believing a recording."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.domain.watching import Ended, doubts
from tests.support.written_recordings import TAIL, TRACE


def ended(**trace: Any) -> Ended:
    return msgspec.convert({**TAIL, "trace": {**TRACE, **trace}}, Ended)


def check(seen: int, counted: int, what: str = "direct-reclaim", **least: int) -> list[dict[str, Any]]:
    return [{"what": what, "counter": "vmstat.allocstall", "seen": seen, "counted": counted, **least}]


@pytest.mark.parametrize(
    "checks",
    [
        check(1000, 1015),
        check(1881, 2001),  # the kernel counts every pass, the tracer every entry
        check(500_000, 505_000, "direct-reclaim-pages"),
        check(600_000, 505_000, "direct-reclaim-pages"),  # slabs are not in that counter
        check(900, 1000, "block-io@vda", counted_least=890),
    ],
)
def test_one_that_agrees_with_the_kernel_raises_no_doubt(checks: list[dict[str, Any]]) -> None:
    assert doubts(ended(), {}) == ()
    assert doubts(ended(checks=checks), {}) == ()


@pytest.mark.parametrize(
    "trace, kind",
    [
        ({"checks": check(0, 300)}, "counter-disagrees"),
        ({"checks": check(300, 0)}, "counter-disagrees"),
        ({"checks": check(200, 1000)}, "counter-disagrees"),
        ({"checks": check(480_000, 505_000, "direct-reclaim-pages")}, "counter-disagrees"),
        ({"checks": check(900, 1000, "block-io@vda", counted_least=950)}, "counter-disagrees"),
        ({"read": 0}, "unread-events"),
        ({"strange": 3}, "unread-events"),
        ({"damaged": 1, "damage": "a page without a header"}, "unread-events"),
        ({"lost": 12}, "lost-events"),
        ({"blind": "the tracer does not see its mark"}, "blind-tracer"),
    ],
)
def test_a_tracer_that_sees_too_little_is_doubted(trace: dict[str, Any], kind: str) -> None:
    (finding,) = doubts(ended(**trace), {})
    assert (finding.kind, finding.level) == (kind, "suspect")


def test_tracepoints_that_are_missing_are_named() -> None:
    absent = {
        "tracepoints": {"vmscan/mm_vmscan_throttled": "this kernel does not have it"},
        "kinds": ["reclaim-throttle"],
    }
    (finding,) = doubts(ended(absent=absent), {})
    assert "vmscan/mm_vmscan_throttled" in finding.sentence
    assert "reclaim-throttle" in finding.sentence


def test_dropped_blocks_and_a_missing_tracer_are_told() -> None:
    without = msgspec.convert({**TAIL, "trace": None, "dropped": 2}, Ended)
    kinds = [finding.kind for finding in doubts(without, {"trace": "tracing needs root"})]
    assert kinds == ["lost-blocks", "no-trace"]
