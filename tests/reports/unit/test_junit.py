# SPDX-License-Identifier: Apache-2.0
"""JUnit XML, read by Python's own parser."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import msgspec
import pytest
from msgspec.structs import replace

from ktrial.bench.text import show
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.verdict import Verdict
from ktrial.kit.finding import Finding
from ktrial.reports.junit import junit_xml
from tests.support.comparisons import hostile, two_arms
from tests.support.told_trials import a_trial, hostile_trial


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


@pytest.mark.parametrize("verdict", ["different", "no difference seen"])
def test_what_names_no_cause_neither_passes_nor_fails(verdict: Verdict) -> None:
    comparison = two_arms(20)
    (first, *_) = comparison.outcomes
    seen = tuple(replace(contrast, verdict=verdict) for contrast in first.contrasts)
    suite = ET.fromstring(junit_xml(replace(comparison, outcomes=(replace(first, contrasts=seen),))))[0]
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["1", "0", "1"]


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


@pytest.mark.parametrize("made", [hostile(), hostile_trial()], ids=["comparison", "trial"])
def test_hostile_text_stays_text(made: Comparison) -> None:
    data = junit_xml(made)
    assert not any(byte < 32 and byte != 10 for byte in data)
    assert b"<script" not in data
    assert {one.tag for one in ET.fromstring(data).iter()} <= {
        *("testsuites", "testsuite", "testcase", "failure", "skipped", "system-out")
    }


def test_a_trial_has_no_case_for_what_was_not_asked() -> None:
    suite = ET.fromstring(junit_xml(a_trial().told()))[0]
    cases = [(one.get("classname"), one.get("name")) for one in suite.findall("testcase")]
    assert {name for name, _ in cases} == {"tool.rate", "tool.p99", "tool.faults"}
    failed = {
        (one.get("classname"), one.get("name")) for one in suite.findall("testcase") if one.find("failure") is not None
    }
    assert failed == {("tool.rate", "sw180"), ("tool.p99", "sw180")}
    assert suite.get("failures") == "2"


def test_a_broken_guard_is_a_failure() -> None:
    told = a_trial().told()
    broken = Finding(kind="guard-broken", level="suspect", sentence="worse by more than is allowed")
    outcomes = [
        replace(
            one, contrasts=tuple(replace(each, verdict="inconclusive", findings=(broken,)) for each in one.contrasts)
        )
        for one in told.outcomes
        if one.role == "guard"
    ]
    suite = ET.fromstring(junit_xml(replace(told, outcomes=tuple(outcomes))))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "3")
