# SPDX-License-Identifier: Apache-2.0
"""What speaks against believing a recording."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.recordings.watching import WatchEnded, doubts
from tests.support.written_recordings import TAIL, TRACE


def ended(**trace: Any) -> WatchEnded:
    return msgspec.convert({**TAIL, "trace": {**TRACE, "counts": {}, **trace}}, WatchEnded)


COUNT = {"count": 5, "time_ns": 9, "longest_ns": 3}


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
        check(40, 100, "compaction", seen_most=100),  # the kernel counts some of those that came to nothing
        check(100, 100, "compaction", seen_most=400),
        check(1, 90_000, "compaction-scan"),
        check(0, 90_000, "compaction-scan", counted_least=0),
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
        ({"checks": check(40, 100, "compaction", seen_most=90)}, "counter-disagrees"),
        ({"checks": check(110, 100, "compaction", seen_most=400)}, "counter-disagrees"),
        ({"checks": check(0, 90_000, "compaction-scan")}, "counter-disagrees"),
        ({"checks": check(0, 900, "irq")}, "counter-disagrees"),
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


def test_counts_that_the_kernel_does_not_make_are_named_with_the_reason() -> None:
    counts = dict.fromkeys(("direct-reclaim", "block-io", "dirty-pause", "softirq"), COUNT)
    checks = [*check(5, 5), *check(9, 9, "block-io@vda")]
    (finding,) = doubts(ended(counts=counts, checks=checks), {})
    assert (finding.kind, finding.level) == ("unchecked-counts", "note")
    assert "dirty-pause (nothing counts these pauses); softirq (this kernel does not" in finding.sentence
    assert "direct-reclaim" not in finding.sentence
    assert "block-io" not in finding.sentence


def test_both_ends_of_what_may_have_been_counted_are_told() -> None:
    (finding,) = doubts(ended(checks=check(40, 100, "compaction", seen_most=90, counted_least=98)), {})
    assert "compaction: 40 to 90 events were traced" in finding.sentence
    assert "counted 98 to 100" in finding.sentence


def test_tracepoints_that_are_missing_are_named() -> None:
    absent = {
        "tracepoints": {"vmscan/mm_vmscan_throttled": "this kernel does not have it"},
        "kinds": ["reclaim-throttle"],
    }
    (finding,) = doubts(ended(absent=absent), {})
    assert "vmscan/mm_vmscan_throttled" in finding.sentence
    assert "reclaim-throttle" in finding.sentence


def test_dropped_blocks_and_a_missing_tracer_are_told() -> None:
    without = msgspec.convert({**TAIL, "trace": None, "dropped": 2}, WatchEnded)
    kinds = [finding.kind for finding in doubts(without, {"trace": "tracing needs root"})]
    assert kinds == ["lost-blocks", "no-trace"]


def of_source(**report: Any) -> list[tuple[str, str, str]]:
    whole = {"period_ns": 10**8, "taken": 990, "late_ns": 3 * 10**8, "cpu_ns": 1, **report}
    told = msgspec.convert({**TAIL, "sources": {"cpu": whole}}, WatchEnded)
    return [(one.kind, one.level, one.sentence) for one in doubts(told, {})]


def test_samples_that_were_left_out_are_told_and_many_are_a_doubt() -> None:
    assert of_source(missed=0, failures=0, unopened=[], gone={}) == []
    ((kind, level, sentence),) = of_source(missed=10)
    assert (kind, level) == ("missed-samples", "note")
    assert "cpu 10 of 1000" in sentence
    assert "0.30 s late" in sentence
    assert of_source(missed=11)[0][1] == "suspect"


def test_files_that_could_not_be_read_are_named_with_the_reason() -> None:
    gone = {"/sys/block/sdz/stat": {"at_ns": 1, "why": "No such device"}}
    ((kind, _, sentence),) = of_source(failures=4, gone=gone, unopened=["/sys/x: EIO"])
    assert kind == "unread-source"
    assert sentence == "cpu: /sys/block/sdz/stat disappeared: No such device; /sys/x: EIO"
    assert "4 reads failed" in of_source(failures=4)[0][2]


def test_files_of_a_program_may_go_with_it() -> None:
    gone = {"/proc/7/task/7/stat": {"at_ns": 1, "why": "No such process"}}
    told = msgspec.convert({**TAIL, "sources": {"threads": {"taken": 3, "failures": 1, "gone": gone}}}, WatchEnded)
    assert doubts(told, {}) == ()


def test_looks_that_became_rarer_are_told() -> None:
    assert of_source(longest_period_ns=10**8) == []
    assert "up to 2.5 s apart, not 0.1 s" in of_source(longest_period_ns=25 * 10**8)[0][2]
