# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.bench.doubts import void_finding
from ktrial.compare.arms import Arm
from ktrial.compare.comparability import doubts
from ktrial.kit.finding import Finding
from ktrial.machine.gates import DEFAULTS, Reading, group_findings
from tests.support.arms import a_run, measured


def arm(name: str, readings: list[dict[str, Reading]], void: int = 0) -> Arm:
    runs = [a_run(f"{name}/{place}", measured(1.0), readings=one) for place, one in enumerate(readings)]
    lost = [a_run(f"{name}/void{place}", void=True) for place in range(void)]
    return Arm(name=name, sources=(), runs=(*runs, *lost))


def found(*arms: Arm) -> dict[str, Finding]:
    return {doubt.finding.kind: doubt.finding for doubt in doubts(arms[0], arms[1:])}


def test_arms_and_sessions_are_doubted_in_the_same_words() -> None:
    readings: list[dict[str, Reading]] = [{"steal_share": 0.05, "throttled_share": 0.5}] * 4
    of_arms = found(arm("stock", readings), arm("tuned", readings))
    for one in group_findings({"stock": readings, "tuned": readings}, DEFAULTS):
        if one.level != "note":
            assert of_arms[one.kind] == one


def test_every_run_that_heat_limited_is_counted_by_arm() -> None:
    hot: dict[str, Reading] = {"throttled_share": 0.2, "kernel_warnings": 3.0}
    cool: dict[str, Reading] = {"throttled_share": 0.0, "kernel_warnings": 0.0}
    told = found(arm("stock", [hot] * 4), arm("tuned", [hot, cool, cool, cool]))
    assert told["throttling"].sentence == "thermally limited: runs 4/4 in stock, 1/4 in tuned"
    assert told["throttling"].values == {"stock": 100.0, "tuned": 25.0}
    assert told["kernel_log"].level == "suspect"
    assert told["kernel_log"].values == {"stock": 100.0, "tuned": 25.0}


def test_void_runs_of_an_arm_are_told_and_many_are_a_doubt() -> None:
    few = found(arm("stock", [{}] * 4, void=1), arm("tuned", [{}] * 4))["void"]
    assert (few.level, few.sentence) == ("note", "1 of 5 runs of stock is void and not counted")
    many = found(arm("stock", [{}] * 4), arm("tuned", [{}] * 4, void=2))["void"]
    assert (many.level, many.values) == ("suspect", {"tuned": 2.0})
    assert many.sentence == "2 of 6 runs of tuned are void and not counted"
    assert void_finding("stock", 0, 5) is None


def test_a_machine_that_is_known_to_have_no_thermometer_is_not_unknown() -> None:
    none: list[dict[str, Reading]] = [{"temperature_c": "none"}]
    assert "temperature" not in found(arm("stock", none), arm("tuned", none))["not-known"].sentence
    assert "temperature" in found(arm("stock", [{}]), arm("tuned", [{}]))["not-known"].sentence
