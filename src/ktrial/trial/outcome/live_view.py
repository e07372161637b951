# SPDX-License-Identifier: Apache-2.0
"""The live view of a running trial: a few lines, redrawn in place, 60 to 80 columns wide.

The view does not reveal which arm is running: it shows the arms as of the last complete block.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import msgspec

from ktrial.bench.text import duration
from ktrial.judge.model.judgement import Judgement, OutcomeJudgement
from ktrial.judge.model.log import OutcomeRule, Protocol
from ktrial.judge.model.verdict import Effect
from ktrial.judge.model.words import percent_text, range_text, value_log_ratio
from ktrial.kit.tables import clean, labelled, shorten

#: Maximum width in columns; longer lines are hard to read.
WIDEST = 80
_NAME, _FIGURES, _GAP = 16, 21, 2
_VERDICT = 14
_LEAST_PICTURE = 13
#: Number of margins from the middle of the picture to either end; more if an estimate is farther out.
_MARGINS = 3.0
_ROOM = 1.25
_STEPS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 4.0, 8.0)


class ShownMoment(msgspec.Struct, frozen=True, kw_only=True):
    """A trial at one moment between two runs.

    `judgement` is null before the first block ends. In the current block, `done` of `runs` runs are over. `left_s` is
    the time to the cap in seconds. `stop` is the block that will probably decide, and `stop_s` the time to it. A
    `blind` trial shows nothing about its arms.
    """

    protocol: Protocol
    judgement: Judgement | None
    cap: int | None
    done: int
    runs: int
    warm_ups: int = 0
    temperature_c: float | None = None
    load: float | None = None
    waiting: str | None = None
    left_s: float | None = None
    stop: int | None = None
    stop_s: float | None = None
    now_unix_s: float = 0.0
    blind: bool = False


def view(moment: ShownMoment, *, width: int) -> list[str]:
    width = min(width, WIDEST)
    protocol = moment.protocol
    rule = protocol.outcomes[protocol.primary]
    arms = [one for one in protocol.contrasts if one[1] == protocol.control]
    shown = {one.arm: one for one in _primaries(moment.judgement) if one.against == protocol.control}
    name = max(8, min(_NAME, max(len(arm) for arm, _ in arms)))
    cells = max(_LEAST_PICTURE, width - name - _FIGURES - _VERDICT - 3 * _GAP)
    cells -= 1 - cells % 2
    reach = reach_of(math.log1p(rule.margin), (one.effect for one in shown.values()))
    lines = [f"{clean(protocol.name)}: {clean(protocol.primary)}, {rule.direction} is better", _progress(moment)]
    lines.append(
        "blind: the arms are shown after the verdict" if moment.blind else " " * (name + _GAP) + _scale_line(cells)
    )
    for arm, _ in arms if not moment.blind else ():
        judged = shown.get(arm)
        picture = interval_picture(None if judged is None else judged.effect, math.log1p(rule.margin), reach, cells)
        figures, verdict = _figures(judged, rule)
        lines.append(f"{shorten(arm, name):<{name}}  {picture}  {figures:<{_FIGURES}}  {verdict}".rstrip())
    lines += _times(moment, width)
    lines += [_conditions(moment)]
    return [shorten(line, width) for line in lines if line]


def profile_line(done: int, of: int, left_s: float | None = None, *, width: int) -> str:
    cells = min(of, 20)
    full = round(cells * done / of) if of else 0
    bar = "\N{FULL BLOCK}" * full + "\N{LIGHT SHADE}" * (cells - full)
    left = "" if left_s is None or done >= of else f", about {duration(left_s)} left"
    return shorten(f"noise profile  {bar}  {done} of {of} blocks{left}", width)


def interval_picture(effect: Effect | None, margin: float, reach: float, cells: int) -> str:
    """Draw `▒▒├─•─┤▒▒`: the interval over the band of the margin.

    Zero is in the middle; better is to the right. An end outside the picture is an arrowhead. Without an interval the
    picture shows only the estimate over the band; without an effect in percent, only the band.
    """
    middle = cells // 2
    band = max(1, round(margin / reach * middle))

    def cell(value: float) -> int:
        return middle + max(-middle, min(middle, round(value / reach * middle)))

    def character(place: int) -> str:
        if place == middle:
            return "\N{BOX DRAWINGS LIGHT VERTICAL}"
        return "\N{MEDIUM SHADE}" if abs(place - middle) <= band else " "

    drawn = [character(place) for place in range(cells)]
    if effect is None or effect.scale != "log":
        return "".join(drawn)
    if effect.low is not None and effect.high is not None:
        first, last = cell(effect.low), cell(effect.high)
        drawn[first : last + 1] = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (last + 1 - first)
        out_left, out_right = effect.low < -reach, effect.high > reach
        drawn[first] = (
            "\N{BLACK LEFT-POINTING SMALL TRIANGLE}" if out_left else "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}"
        )
        drawn[last] = (
            "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}" if out_right else "\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}"
        )
    drawn[cell(effect.estimate)] = "\N{BULLET}"
    return "".join(drawn)


def _primaries(judgement: Judgement | None) -> list[OutcomeJudgement]:
    return [] if judgement is None else [one for one in judgement.judged if one.role == "primary"]


def reach_of(margin: float, effects: Iterable[Effect | None]) -> float:
    """Return the distance from the middle to the ends of the pictures, rounded so that the scale seldom changes."""
    far = [abs(one.estimate) for one in effects if one is not None and one.scale == "log"]
    wanted = max([_MARGINS * margin, *(_ROOM * one for one in far if math.isfinite(one))])
    return next((step for step in _STEPS if step >= wanted), _STEPS[-1])


def _scale_line(cells: int) -> str:
    middle = cells // 2
    line = list(" " * cells)
    for word, start in (("worse", 0), ("better", cells - 6), ("0", middle)):
        line[start : start + len(word)] = word
    return "".join(line)


def _figures(judged: OutcomeJudgement | None, rule: OutcomeRule) -> tuple[str, str]:
    """Return the interval of the measured value (or only the estimate), and the verdict."""
    if judged is None or judged.effect is None:
        return "", "open" if judged is None or judged.verdict is None else judged.verdict
    return effect_figures(judged.effect, rule), judged.verdict or "open"


def effect_figures(effect: Effect, rule: OutcomeRule) -> str:
    """Return the change of the measured value, such as `+4.9 % to +7.2 %`; without an interval, the estimate."""
    if effect.scale != "log":
        return f"{effect.estimate:+.3g}"
    if effect.low is None or effect.high is None:
        return f"about {percent_text(value_log_ratio(effect.estimate, rule.direction))}"
    return range_text(*(value_log_ratio(end, rule.direction) for end in (effect.low, effect.high)))


def _progress(moment: ShownMoment) -> str:
    if moment.warm_ups and moment.judgement is None and not moment.done:
        return f"warming up: run {moment.warm_ups}, which does not count"
    blocks = 0 if moment.judgement is None else moment.judgement.blocks
    most = f"at most {moment.protocol.budget}" if moment.cap is None else f"at most {moment.cap}"
    told = f"{blocks} of {most} blocks done"
    if moment.judgement is not None and moment.judgement.next.action == "stop":
        return told
    voided = 0 if moment.judgement is None else moment.judgement.voided
    void = f", {voided} void" if voided else ""
    return f"{told}{void}; {moment.done} of {moment.runs} runs of the next one"


def _times(moment: ShownMoment, width: int) -> list[str]:
    if moment.judgement is not None and moment.judgement.next.action == "stop":
        return labelled("ends", moment.judgement.next.reason, width=width, label_columns=8).split("\n")
    told = []
    if moment.stop is not None and moment.stop_s is not None and moment.stop != moment.cap:
        told.append(f"{duration(moment.stop_s)} to block {moment.stop}, where it probably ends")
    if moment.left_s is not None:
        clock = time.strftime("%H:%M", time.localtime(moment.now_unix_s + moment.left_s))
        told.append(f"{duration(moment.left_s)} to the cap ({clock})")
    return labelled("left", "; ".join(told), width=width, label_columns=8).split("\n") if told else []


def _conditions(moment: ShownMoment) -> str:
    told = []
    if moment.temperature_c is not None:
        told.append(f"{moment.temperature_c:.0f} °C")
    if moment.load is not None:
        told.append(f"load {moment.load:.2f}")
    if moment.waiting is not None:
        told.append(clean(moment.waiting))
    return f"{'now':<8}{', '.join(told)}" if told else ""
