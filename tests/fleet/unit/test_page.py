# SPDX-License-Identifier: Apache-2.0
"""The report of a fleet's trial for others: what it says first, its sections, and its pictures."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from ktrial.fleet.charts import MOST_BARS, waves_chart
from ktrial.fleet.log import FleetBegan, FleetStanding
from ktrial.fleet.page import fleet_comparison, fleet_html, fleet_markdown
from ktrial.fleet.verdict import fleet_result
from ktrial.reports.charts.drawing import PAGE, Chart, Style
from tests.support.comparisons import HOSTILE
from tests.support.fleets import GUARD, UNITS, began, fleet_page, fleet_trial, hosts, racks, simulated

#: Characters of two lines of the page on a desk.
TWO_LINES = 130


def told(first: FleetBegan, **manner: Any) -> str:
    """The report as Markdown."""
    return fleet_page(fleet_markdown, first, **manner)


def answer(text: str) -> str:
    found = re.search(r"^\*\*(.*)\*\*$", text, re.MULTILINE)
    assert found is not None
    assert len(found[1]) <= TWO_LINES
    return found[1]


def rows(text: str, caption: str) -> list[list[str]]:
    """The rows of the table with this caption."""
    lines = text.split(f"\n{caption}", 1)[1].split("\n\n")[1].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def bars(chart: Chart) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chart.spec["data"]["values"]
    return found


def test_six_of_eight_machines_are_better_and_the_page_says_so_first() -> None:
    first = began(fleet_trial(subgroups=("inventory.rack", "inventory.role")), racks(8))
    text = told(first, effect=lambda host: 0.0 if host in {"m7", "m8"} else 0.1)
    said = answer(text)
    assert re.fullmatch(
        r"On machines like these, big is better: time -[\d.]+ %; the machines differ: better on 6 of 8", said
    )
    order = [row[2] for row in rows(text, "Each machine") if row[0] == "tool.time"]
    assert set(order[6:8]) == {"m7", "m8"}, "those that it helps least come last"
    assert order[8:] == ["mean of 8 machines", "one more machine"]
    by_fact = rows(text, "tool.time, big: the effect by fact")
    assert [(row[0], row[1], row[2], row[5]) for row in by_fact] == [
        ("inventory.rack", "a", "4", ""),
        ("inventory.rack", "b", "4", ""),
        ("inventory.role", "db", "2", "too few machines to pool"),
        ("inventory.role", "web", "6", ""),
    ]
    assert "The machines differ: better on 6, worse on 0 of 8" in text.split("## Findings")[1]


def test_a_fact_that_nobody_declared_is_not_tested() -> None:
    facts = {host: {**one, "disk": "nvme" if host < "m5" else "sata"} for host, one in racks(8).items()}
    text = told(began(fleet_trial(subgroups=("inventory.rack",)), facts))
    assert "not declared in subgroups, and therefore not tested: disk, inventory.role." in text
    assert "nvme" not in text
    assert ["cpu.threads", "8"] in rows(text, "The same in all arms")


def test_a_stopped_wave_is_the_answer_with_its_guard_and_the_machine_that_was_lost() -> None:
    first = began(fleet_trial(waves=(4, "100%")), hosts(8))
    lost = next(one.host for one in first.machines if one.wave == 1)
    text = told(first, harm=lambda _: -0.5, away={lost: 5000})
    assert re.fullmatch(
        r"On 3 machines, big is worse than a guard allows: p99 \+6\d %; wave 1 stopped the trial", answer(text)
    )
    assert rows(text, "What was decided") == [["wave 1", "4", "stop", f"{GUARD} of big is worse than a guard allows"]]
    (guard,) = rows(text, "Guards on the machines so far")
    assert guard[:3] == ["wave 1", GUARD, "big"]
    assert guard[4] == "+5 %"
    assert guard[7] == "**broken**"
    assert rows(text, "Machines without a result") == [[lost, "while measuring", "away for too long: no route to host"]]
    assert "1 machine began and gave no result" in text
    assert "3 machines of 8" in text


def test_a_limit_that_stops_a_wave_is_the_answer_although_no_machine_finished() -> None:
    text = told(began(fleet_trial(waves=("100%",)), hosts(4)), trips=("m2",), turns=5)
    assert answer(text) == "Wave 1 stopped the trial: a guard of m2 tripped: the temperature is 99.0 °C (limit 95 °C)"


def test_pairs_are_about_these_machines_and_show_their_mean() -> None:
    odd = {"m13": {"cpu.model": "B", "cpu.threads": "8", "kernel.release": "6.1"}}
    text = told(
        began(fleet_trial(design="pairs", subgroups=("cpu.model",)), {**hosts(12), **odd}),
        effect=lambda _: 0.3,
        between=0.02,
    )
    assert answer(text).startswith("On these machines, big is better: time -2")
    machines = [row for row in rows(text, "Each machine, and all together") if row[0] == "tool.time"]
    assert len(machines) == 7
    assert machines[-1][2] == "all together"
    assert machines[-1][5] != "-"
    assert [row[:2] for row in rows(text, "Machines without a result")] == [["m13", "before the first run"]]
    assert "1 machine of the inventory did not take part" in text
    runs = {row[0]: (row[1], row[5]) for row in rows(text, "Runs of each arm")}
    assert runs == {"control": ("84", "6"), "big": ("84", "6")}
    assert "The design pairs judges all machines together: there is no effect by fact." in text


def test_each_machine_is_a_bar_in_its_wave_from_the_first_look_to_its_end() -> None:
    first = began(fleet_trial(waves=(2, "100%")), hosts(5))
    late = next(one.host for one in first.machines if one.wave == 1)
    standing, _ = simulated(first, away={late: 5000})
    for width in (900, 340):
        chart = waves_chart(standing, Style(palette=PAGE, width=width))
        drawn = bars(chart)
        assert sorted(one["name"] for one in drawn) == sorted(hosts(5))
        assert all(one["start"] < one["end"] for one in drawn)
        states = {one["name"]: (one["state"], one["shape"]) for one in drawn}
        assert states.pop(late) == ("failed", "cross")
        assert set(states.values()) == {("done", "circle")}
        assert [row[1] for row in chart.table.rows] == [one["name"] for one in drawn]
        assert "minutes since" in str(chart.spec)
    assert standing.first_look_unix_ms.keys() == standing.steps.keys()


def test_of_many_machines_the_picture_shows_those_without_a_result_and_the_table_all() -> None:
    count = MOST_BARS + 20
    first = began(fleet_trial(waves=(count,)), hosts(count))
    standing, _ = simulated(first, away={first.machines[-1].host: 5000})
    chart = waves_chart(standing, Style())
    assert len(bars(chart)) == MOST_BARS
    assert "failed" in {one["state"] for one in bars(chart)}
    assert len(chart.table.rows) == count
    assert f"{MOST_BARS} of {count} machines" in chart.caption


def test_machines_that_have_not_begun_are_in_the_table() -> None:
    standing, _ = simulated(began(fleet_trial(waves=(4, "100%")), hosts(8)), harm=lambda _: -0.5)
    chart = waves_chart(standing, Style())
    assert [row[3] for row in chart.table.rows] == ["done"] * 4 + ["not begun"] * 4
    assert "4 machines not begun" in chart.caption


def test_a_trial_without_a_look_yet_has_a_page() -> None:
    first = began(fleet_trial(), hosts(4))
    standing = FleetStanding([first])
    text = fleet_html(standing, fleet_result(standing, {}), {}, UNITS)
    assert "No machine has finished its blocks" in text
    assert (
        "Scope: nothing yet; 0 of 4 machines measured, design within, 7 blocks on each; the trial is not over." in text
    )


def test_the_page_has_the_sections_and_no_switches_for_arms() -> None:
    first = began(fleet_trial(subgroups=("inventory.rack",)), racks(8))
    text = fleet_page(fleet_html, first, effect=lambda _: 0.1)
    assert re.findall(r'<section[^>]*"(machines|facts|waves)"', text) == ["machines", "facts", "waves"]
    assert '<fieldset class="arms"' not in text
    assert "Verdicts are corrected" not in text, "the interval over machines decides itself"


def test_names_and_facts_are_foreign_text() -> None:
    first = began(
        fleet_trial(subgroups=("inventory.rack",)),
        {(HOSTILE if host == "m1" else host): {**one, "inventory.rack": HOSTILE} for host, one in hosts(4).items()},
    )
    for write in (fleet_html, fleet_markdown):
        assert "<script>alert" not in fleet_page(write, first)


@pytest.mark.parametrize("unit, noun", [("s", "less time"), ("ratio", "less share")])
def test_units_are_those_that_the_machines_measured(unit: Any, noun: str) -> None:
    standing, world = simulated(began(fleet_trial(), hosts(4)), effect=lambda _: 0.3)
    logs = {place: world.log(trial) for place, trial in standing.finished.items()}
    found = fleet_result(standing, logs)
    comparison = fleet_comparison(standing, found, logs, {"tool.time": unit})
    assert comparison.outcomes[0].unit == unit
    assert noun in fleet_markdown(standing, found, logs, {"tool.time": unit})
    assert comparison.outcomes[0].contrasts[0].n_arm == 4
    assert math.isclose(comparison.outcomes[0].margin, found.contrasts[0].margin)
