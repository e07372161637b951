# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import pytest

from ktrial.judge.judge import judge
from ktrial.judge.model.log import OutcomeRule
from ktrial.judge.model.verdict import Effect
from ktrial.trial.outcome.live_view import ShownMoment, effect_figures, interval_picture, profile_line, view
from tests.support.trials import RATE, TIME, log_of, pair_log, protocol


def effect(estimate: float, low: float | None, high: float | None) -> Effect:
    return Effect(estimate=estimate, low=low, high=high, method="test")


def moment(blocks: int = 7, step: float = 0.05, **changes: Any) -> ShownMoment:
    fixed = protocol()
    said = judge(pair_log(fixed, [step + 0.01 * (-1) ** place for place in range(blocks)])) if blocks else None
    fields: dict[str, Any] = {"protocol": fixed, "judgement": said, "cap": 20, "done": 1, "runs": 2}
    return ShownMoment(**fields | changes)


@pytest.mark.parametrize(
    "shown,picture",
    [
        # Ten cells to either side are 0.1, so a cell is 0.01 and the band of 0.02 two cells.
        (None, "        ▒▒│▒▒        "),
        (effect(0.05, 0.02, 0.08), "        ▒▒│▒├──•──┤  "),
        (effect(-0.05, -0.2, 0.03), "◂────•───────┤       "),
        (effect(0.0, -0.01, 0.01), "        ▒├•┤▒        "),
        (effect(0.3, 0.25, 0.35), "        ▒▒│▒▒       •"),
        (effect(0.04, None, None), "        ▒▒│▒▒ •      "),
    ],
)
def test_the_interval_is_drawn_before_the_band_of_the_margin(shown: Effect | None, picture: str) -> None:
    assert interval_picture(shown, 0.02, 0.1, 21) == picture


@pytest.mark.parametrize("width", [60, 79, 200])
@pytest.mark.parametrize("blocks", [0, 3, 7, 20])
def test_no_line_is_wider_than_the_terminal(width: int, blocks: int) -> None:
    fields: dict[str, Any] = {
        "temperature_c": 54.2,
        "load": 12.34,
        "waiting": "temperature 71 °C, begins below 60 °C " * 3,
    }
    lines = view(moment(blocks, left_s=3725.0, stop=12, stop_s=71.0, **fields), width=width)
    assert max(map(len, lines)) <= min(width, 80)
    assert len(lines) <= 9


def test_it_says_how_far_it_is_and_when_it_ends() -> None:
    fixed = protocol(outcomes={TIME: OutcomeRule(direction="lower", role="primary", margin=0.001)})
    judgement = judge(pair_log(fixed, [0.01 * (-1) ** place for place in range(7)]))
    times: dict[str, Any] = {"left_s": 3725.0, "stop": 12, "stop_s": 71.0, "temperature_c": 54.2, "load": 0.5}
    said = "\n".join(view(moment(protocol=fixed, judgement=judgement, **times), width=80))
    assert "7 of at most 20 blocks done; 1 of 2 runs of the next one" in said
    assert "left    1 min 11 s to block 12, where it probably ends; 1 h 2 min to the cap" in said
    assert "54 °C, load 0.50" in said


def test_before_the_first_block_it_says_so() -> None:
    lines = view(moment(0, done=0, runs=6, warm_ups=2), width=80)
    assert lines[1] == "warming up: run 2, which does not count"
    assert "open" in lines[3]


def test_it_ends_with_the_reason() -> None:
    said = view(moment(20), width=80)
    assert "ends    every comparison has its verdict" in said
    assert any("better" in line and line.startswith("case") for line in said)


def test_a_lower_value_that_is_better_is_told_as_lower() -> None:
    """Scores are above zero where an arm is better; of a time that is 4.9 % less."""
    shown = effect(0.05, 0.02, 0.08)
    assert effect_figures(shown, OutcomeRule(direction="lower", role="primary")) == "-7.7 % to -2 %"
    assert effect_figures(shown, OutcomeRule(direction="higher", role="primary")) == "+2 % to +8.3 %"
    assert effect_figures(effect(0.05, None, None), OutcomeRule(direction="lower", role="primary")) == "about -4.9 %"


def test_pictures_keep_their_scale_while_intervals_close_in() -> None:
    """Twelve blocks have a narrower interval than seven; the band is drawn equally wide, so that it is seen."""
    bands = set()
    for blocks in (3, 7, 12, 20):
        lines = view(moment(blocks, step=0.004), width=80)
        bands.add((lines[2], lines[3].count("▒") > 0))
    assert len(bands) == 1


def test_placebos_and_tiers_are_shown_against_the_control_only() -> None:
    fixed = protocol(
        ("small", "large"), questions="ladder", outcomes={RATE: OutcomeRule(direction="higher", role="primary")}
    )
    scores = {
        RATE: {
            arm: [gain + 0.01 * (block % 3) for block in range(9)]
            for arm, gain in (("control", 0.0), ("small", 0.05), ("large", 0.1))
        }
    }
    lines = view(moment(protocol=fixed, judgement=judge(log_of(fixed, scores))), width=80)
    assert [line.split()[0] for line in lines[3:5]] == ["small", "large"]


def test_the_profile_has_a_bar() -> None:
    assert profile_line(4, 10, width=60) == "noise profile  ████░░░░░░  4 of 10 blocks"
    assert math.isclose(len(profile_line(10, 10, width=60)), 43, abs_tol=1)


def test_time_is_the_primary_here() -> None:
    assert view(moment(), width=80)[0] == f"test: {TIME}, lower is better"
