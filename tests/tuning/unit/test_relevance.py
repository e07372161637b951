# SPDX-License-Identifier: Apache-2.0
"""What cannot matter on a machine is said by one rule, wherever it is proposed, planned or explained."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.studies.goals import Goal, GoalSetting, Measure
from ktrial.studies.suggest import candidates_of
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.explain import explain
from ktrial.tuning.knobs.relevance import inert_here
from ktrial.tuning.plans.plan_text import plan_json, plan_text
from ktrial.tuning.plans.resolve import make_plan
from tests.support.machine import FakeMachine

FILES = {
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/dirty_ratio": "20\n",
    "/sys/module/zswap/parameters/max_pool_percent": "20\n",
    "/sys/module/zswap/parameters/enabled": "N\n",
}
NO_SWAP = "it controls swapping, and this machine has no swap"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def machine(**facts: Any) -> FakeMachine:
    return FakeMachine(FILES, {"swap.total": 0, **{name.replace("__", "."): value for name, value in facts.items()}})


@pytest.mark.parametrize(
    "knob, facts, together, why",
    [
        ("vm.swappiness", {"swap.total": 0}, (), NO_SWAP),
        ("vm.swappiness", {"swap.total": 1 << 30}, (), None),
        ("vm.swappiness", {}, (), None),
        ("vm.swappiness", {"swap.total": 0}, ("zram:disksize",), None),
        ("zswap:max_pool_percent", {"swap.total": 1, "zswap.enabled": False}, (), "zswap is off"),
        ("zswap:max_pool_percent", {"swap.total": 1, "zswap.enabled": False}, ("zswap:enabled",), None),
        ("zswap:max_pool_percent", {"swap.total": 1, "zswap.enabled": True}, (), None),
        ("vm.dirty_ratio", {"swap.total": 0}, (), None),
    ],
)
def test_a_knob_is_inert_by_facts_alone(
    catalog: Catalog, knob: str, facts: dict[str, Any], together: tuple[str, ...], why: str | None
) -> None:
    book = FakeMachine(FILES, facts).facts()
    assert inert_here(catalog.knobs[knob], book, catalog.kinds, together) == why


def test_a_plan_says_so_and_not_of_what_the_same_plan_makes_matter(catalog: Catalog) -> None:
    plan, facts = make_plan(machine(), catalog, ("vm.swappiness=10", "vm.dirty_ratio=10"))
    assert [change.inert for change in plan.changes] == [NO_SWAP, None]
    assert plan_json(plan)["inert"] == [{"knob": "vm.swappiness", "why": NO_SWAP}]
    assert "inert here: it controls" in plan_text(plan, catalog.knobs, facts, width=200)
    words = ("zswap:enabled=true", "zswap:max_pool_percent=10")
    plan, _ = make_plan(machine(swap__total=1 << 30, zswap__enabled=False), catalog, words)
    assert [change.inert for change in plan.changes] == [None, None]


def test_an_explanation_says_so(catalog: Catalog) -> None:
    assert explain(machine(), catalog.knobs["vm.swappiness"], catalog.kinds).inert == NO_SWAP
    assert explain(machine(swap__total=1), catalog.knobs["vm.swappiness"], catalog.kinds).inert is None


def test_what_is_inert_is_not_suggested_but_named(catalog: Catalog) -> None:
    goal = Goal(
        name="calm",
        what="Calm.",
        measure=(Measure(knobs=("vm.*",), suite="memory-pressure", primary="frame-p99"),),
        candidate=(
            GoalSetting(knob="vm.swappiness", value=1, why="a"),
            GoalSetting(knob="vm.dirty_ratio", value=5, why="b"),
        ),
    )
    found = candidates_of([goal], machine(), catalog)
    assert [one.knob for one in found.candidates] == ["vm.dirty_ratio"]
    assert found.inert == {"vm.swappiness": NO_SWAP}
    found = candidates_of([goal], machine(swap__total=1), catalog)
    assert {one.knob for one in found.candidates} == {"vm.dirty_ratio", "vm.swappiness"}
    assert found.inert == {}
