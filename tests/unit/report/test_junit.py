# SPDX-License-Identifier: Apache-2.0
"""JUnit XML, read by Python's own parser."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import msgspec

from ktrial.domain.finding import Finding
from ktrial.report.bench import show
from ktrial.report.junit import junit_xml
from tests.support.comparisons import hostile, two_arms


def test_a_case_for_each_verdict() -> None:
    suite = ET.fromstring(junit_xml(two_arms(20)))[0]
    cases = suite.findall("testcase")
    found = {case.get("classname"): [child.tag for child in case] for case in cases}
    assert found == {
        "memory-pressure.latency.p50": ["system-out"],
        "memory-pressure.latency.p90": ["system-out"],
        "memory-pressure.latency.p99": ["failure"],
        "memory-pressure.load.throughput": ["system-out"],
        "memory-pressure.energy": ["skipped"],
    }
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "1", "0", "1"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert (failure.get("message") or "").startswith("worse: +2")


def test_every_finding_is_told() -> None:
    comparison = two_arms(20)
    swing = Finding(kind="swing", level="note", sentence="stock: (max - min) / median is above 25 %")
    outcomes = tuple(msgspec.structs.replace(one, findings=(swing,)) for one in comparison.outcomes)
    suite = ET.fromstring(junit_xml(msgspec.structs.replace(comparison, outcomes=outcomes)))[0]
    told = (suite.findtext("system-out") or "").split("\n")
    assert f"note: {outcomes[0].name}: {swing.sentence}" in told


def test_the_figures_of_each_arm_are_told() -> None:
    comparison = two_arms(20)
    suite = ET.fromstring(junit_xml(comparison))[0]
    told = (suite.findtext("system-out") or "").split("\n")
    first = comparison.outcomes[0]
    (line,) = (line for line in told if line.startswith(f"{first.name}, {first.arms[0].arm}: n 20, mean "))
    assert [part.split(" ")[0] for part in line.split(": ", 1)[1].split(", ")] == [
        *("n", "mean", "median", "sd", "CV", "min", "max")
    ]
    assert f"median {show(first.arms[0].median, first.unit)}" in line


def test_hostile_text_stays_text() -> None:
    data = junit_xml(hostile())
    assert not any(byte < 32 and byte != 10 for byte in data)
    assert b"<script" not in data
    assert {one.tag for one in ET.fromstring(data).iter()} <= {
        *("testsuites", "testsuite", "testcase", "failure", "skipped", "system-out")
    }
