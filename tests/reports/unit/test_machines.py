# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import msgspec

from ktrial.judge.model.comparison import Comparison, MachineEffect, Pooled
from ktrial.judge.model.verdict import Effect
from ktrial.reports.charts import comparison_charts
from ktrial.reports.charts.drawing import Style
from ktrial.reports.html import html_page
from ktrial.reports.machines import machine_rows
from ktrial.reports.markdown import markdown
from ktrial.reports.terminal import comparison_text
from tests.support.comparisons import HOSTILE, two_arms


def over_machines(names: tuple[str, ...] = ("desk", "laptop", "server"), *, together: bool = True) -> Comparison:
    """One outcome of which less is better: a tenth less on the mean of the machines."""
    made = two_arms(6)
    outcome = msgspec.structs.replace(made.outcomes[0], direction="lower")
    tenth = Effect(estimate=-math.log(0.9), low=-math.log(0.95), high=-math.log(0.85), method="by hand")
    machines = [MachineEffect(machine=name, blocks=10, effect=tenth) for name in names]
    left_out = MachineEffect(machine="phone", blocks=6, why="6 blocks are too few to pool")
    whole = Pooled(machines=(*machines, left_out))
    if together:
        whole = msgspec.structs.replace(
            whole, predicted_low=-math.log(1.1), predicted_high=-math.log(0.7), tau=math.log(1.05), i_squared=0.8
        )
    contrast = msgspec.structs.replace(
        outcome.contrasts[0], effect=tenth if together else None, pooled=whole, why="told by hand"
    )
    return msgspec.structs.replace(made, outcomes=(msgspec.structs.replace(outcome, contrasts=(contrast,)),))


def test_rows_are_each_machine_the_mean_and_one_more() -> None:
    rows = [(row.machine, row.blocks, row.change, row.interval, row.why) for row in machine_rows(over_machines())]
    assert rows == [
        *((name, "10", "-10 %", "-15 % to -5 %", "") for name in ("desk", "laptop", "server")),
        ("phone", "6", "-", "-", "6 blocks are too few to pool"),
        (
            "mean of 3 machines",
            "30",
            "-10 %",
            "-15 % to -5 %",
            "machines differ by 5 % (tau), 80.0 % of the scatter (I²)",
        ),
        ("one more machine", "-", "-", "-30 % to +10 %", "prediction interval"),
    ]


def test_side_by_side_there_is_neither_mean_nor_prediction() -> None:
    rows = machine_rows(over_machines(("desk", "laptop"), together=False))
    assert [row.machine for row in rows] == ["desk", "laptop", "phone", "all together"]
    assert (rows[-1].change, rows[-1].interval, rows[-1].why) == ("-", "-", "told by hand")


def test_every_format_shows_machines_and_only_where_they_were_asked() -> None:
    made, bare = over_machines(), two_arms(6)
    for text in (markdown(made), html_page(made), comparison_text(made, width=100)):
        for told in ("laptop", "mean of 3 machines", "one more machine", "-30 % to +10 %", "prediction interval"):
            assert told in text
    for text in (markdown(bare), html_page(bare), comparison_text(bare, width=100)):
        assert "one more machine" not in text


def test_the_picture_holds_every_machine_with_an_effect() -> None:
    (chart,) = [one for one in comparison_charts(over_machines(), Style(width=900)) if one.name.startswith("machines")]
    drawn = chart.spec["data"]["values"] if "data" in chart.spec else chart.spec["layer"][0]["data"]["values"]
    assert [one["name"] for one in drawn] == ["desk", "laptop", "server", "mean of 3 machines", "one more machine"]
    assert [one["verdict"] for one in drawn][-1] == "expected"
    assert drawn[-1]["low"] < 0 < drawn[-1]["high"]
    assert "prediction interval" in chart.caption
    alone = comparison_charts(over_machines(("desk", "laptop"), together=False), Style(width=900))
    (chart,) = [one for one in alone if one.name.startswith("machines")]
    assert "told by hand" in chart.caption
    assert not [one for one in comparison_charts(two_arms(6), Style(width=900)) if one.name.startswith("machines")]


def test_names_of_machines_are_foreign_text() -> None:
    made = over_machines((HOSTILE, "laptop", "server"))
    assert "<script>alert" not in html_page(made)
    assert "<script>" not in markdown(made)
    assert "\x1b" not in comparison_text(made, width=100)
