# SPDX-License-Identifier: Apache-2.0
"""The option `--fail-on`: certain verdicts end a command with status 3."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from ktrial.cli.options import F
from ktrial.kit.errors import BadInput, GuardTripped

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
    from ktrial.judge.model.verdict import Effect, Verdict

    #: Returns the same comparison at a smaller error rate: 5 % divided by a number of comparisons.
    Stricter = Callable[[int], Comparison]
    JudgedPair = tuple[OutcomeComparison, Contrast]

#: The verdicts whose intervals are checked against the limit of a verdict. `different` is for observational data.
_CHECKED: dict[str, tuple[Verdict, ...]] = {
    "worse": ("better", "worse", "equivalent", "inconclusive"),
    "different": ("different", "no difference seen"),
}
#: Among these, the verdicts whose intervals can prove that a limit is exceeded.
_PROVING: dict[str, tuple[Verdict, ...]] = {"worse": ("worse", "equivalent"), "different": ("different",)}
_PERCENT = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3})?%")
#: Number of failed runs that makes an arm of a trial worse, whatever its other runs show.
_DECIDING_FAILURES = 6


def _ask(context: click.Context, option: click.Parameter, text: str | None) -> None:
    """Parse comma-separated verdicts, with `-` for a space; `worse` and `different` may have a limit."""
    from typing import get_args

    from ktrial.judge.model.verdict import Verdict

    known = {verdict.replace(" ", "-"): verdict for verdict in get_args(Verdict)}
    conditions = []
    for word in [] if text is None else [word.strip() for word in text.split(",")]:
        name, colon, limit = word.partition(":")
        if name not in known:
            hint = "; a limit follows a colon: worse:5%" if name.startswith(tuple(_CHECKED)) else ""
            raise click.BadParameter(f"{word!r} is not one of {', '.join(known)}{hint}", ctx=context, param=option)
        if colon and name not in _CHECKED:
            why = f"{name} takes no limit; only worse and different take a limit"
            raise click.BadParameter(why, ctx=context, param=option)
        if colon and _PERCENT.fullmatch(limit) is None:
            raise click.BadParameter(f"expected a limit such as {name}:5%, got {word!r}", ctx=context, param=option)
        conditions.append((known[name], float(limit[:-1]) / 100 if colon else None))
    if context.obj is not None:
        context.obj.fail_on = tuple(conditions)


def _fail_on(text: str) -> Callable[[F], F]:
    """Return an option that sets `App.fail_on`."""
    return click.option("--fail-on", callback=_ask, expose_value=False, metavar="VERDICT[:5%],…", help=text)


_TEXT = (
    "Verdicts that make the exit status 3, such as worse,inconclusive,not-comparable. worse:5% means proven worse by"
    " more than 5 %, or worse because runs fail."
)
fail_on_option = _fail_on(_TEXT)
#: For a command that also compares files without the order of their runs.
fail_on_file_option = _fail_on(
    f"{_TEXT} Files of other tools seldom contain the order of the runs. Without the order, the verdict is `different`,"
    " not `worse`; for such files use worse:5%,different:5%. A speed-up counts only if ktrial does not know which"
    " direction is better."
)


def refuse(app: App, found: Comparison, stricter: Stricter | None = None) -> None:
    """Raise GuardTripped if a condition of --fail-on is met, and BadInput if it cannot be checked.

    No condition can be checked if the primary outcome (without one, every outcome) is not comparable. The intervals
    of a trial already account for the number of comparisons; for other data, `stricter` returns the comparison with
    corrected intervals.
    """
    pairs = [(outcome, contrast) for outcome in found.outcomes for contrast in outcome.judged]
    contrasts = [contrast for _, contrast in pairs]
    for verdict, limit in app.fail_on:
        if limit is not None:
            _check_limit(app, verdict, limit, pairs, stricter)
            continue
        met = [contrast for contrast in contrasts if contrast.verdict == verdict]
        if met:
            count = "1 verdict is" if len(met) == 1 else f"{len(met)} verdicts are"
            raise GuardTripped(f"{count} {verdict}: {met[0].sentence}")
    asks_different = "different" in dict(app.fail_on)
    if app.fail_on and any(one.verdict == "different" for one in contrasts) and not asks_different:
        word = next((f"different:{100 * limit:g}%" for _, limit in app.fail_on if limit is not None), "different")
        app.say(f"--fail-on ignored a difference of unknown cause; add `{word}` to fail on differences too")
    primary = [contrast for outcome, contrast in pairs if outcome.role == "primary"]
    asked = primary or contrasts
    if app.fail_on and asked and all(contrast.verdict == "not comparable" for contrast in asked):
        raise BadInput(
            f"cannot check --fail-on: {asked[0].arm} and {asked[0].control} are not comparable",
            hint="remove the cause that the report names"
            + (", or declare intended differences with --declared" if found.trial is None else ""),
        )


def _check_limit(
    app: App, verdict: Verdict, limit: float, pairs: Sequence[JudgedPair], stricter: Stricter | None
) -> None:
    """Raise GuardTripped if a whole interval is beyond the limit; otherwise print what the data show."""
    checked = [pair for pair in pairs if pair[1].verdict in _CHECKED[verdict]]
    if verdict == "worse" and (failing := [one for _, one in checked if _fails(one)]):
        raise GuardTripped(f"{failing[0].arm} is worse because its runs fail: {failing[0].why}")
    beyond = [pair for pair in checked if pair[1].verdict in _PROVING[verdict] and _is_beyond(pair, limit)]
    proven = [one for pair in beyond if (one := _counted_in(pair, limit, pairs, stricter)) is not None]
    if proven:
        outcome = proven[0].outcome
        word = "worse" if outcome.direction is not None else "different"
        cause = ", cause unknown" if verdict == "different" and word == "worse" else ""
        count = "1 outcome is" if len(proven) == 1 else f"{len(proven)} outcomes are"
        what = f"{count} surely {word} by more than {100 * limit:g} %{cause}"
        raise GuardTripped(f"{what}: {proven[0].text}")
    told = [pair for pair in checked if pair[0].role == "primary"] or checked
    if beyond:
        pair, family = beyond[0], _family_size(beyond[0], pairs)
        state = f"is not proven for {family} comparisons together; name one with --primary."
    elif told:
        pair = min(told, key=_lowest)
        state = f"is {'ruled out' if all(_is_within(one, limit) for one in told) else 'not proven'} for"
    else:
        return
    outcome, contrast = pair
    subject = f"{outcome.name} of {contrast.arm} against {contrast.control}"
    app.say(f"--fail-on {verdict}:{100 * limit:g}% {state} {subject}: {_interval_text(outcome, contrast.effect)}")


class ProvenContrast(NamedTuple):
    """A contrast beyond the limit of --fail-on; `together` is its effect, corrected for `family` comparisons."""

    outcome: OutcomeComparison
    contrast: Contrast
    family: int = 1
    together: Effect | None = None

    @property
    def text(self) -> str:
        if self.together is None:
            return self.contrast.sentence
        interval = _interval_text(self.outcome, self.together)
        return f"{self.contrast.sentence} Corrected for {self.family} comparisons: {interval}."


def _counted_in(
    pair: JudgedPair, limit: float, pairs: Sequence[JudgedPair], stricter: Stricter | None
) -> ProvenContrast | None:
    """Return the contrast if its interval, corrected for all contrasts of its role, is beyond `limit`; or else None."""
    outcome, contrast = pair
    family = _family_size(pair, pairs)
    if stricter is None or family == 1:
        return ProvenContrast(outcome, contrast)
    for again in stricter(family).outcomes:
        for one in again.judged if again.name == outcome.name else ():
            if (one.arm, one.control) == (contrast.arm, contrast.control) and _is_beyond((again, one), limit):
                return ProvenContrast(outcome, contrast, family, one.effect)
    return None


def _family_size(pair: JudgedPair, pairs: Sequence[JudgedPair]) -> int:
    return sum(other.role == pair[0].role for other, _ in pairs)


def _fails(contrast: Contrast) -> bool:
    """Return whether the arm is worse because its runs fail."""
    return contrast.verdict == "worse" and any(
        one.sentence == contrast.why
        or (one.kind == "failures" and float(one.values[contrast.arm]) >= _DECIDING_FAILURES)
        for one in contrast.findings
    )


def _is_beyond(pair: JudgedPair, limit: float) -> bool:
    """Return whether the whole interval is worse than the limit.

    If no direction is known to be worse, either side counts.
    """
    outcome, contrast = pair
    effect = contrast.effect
    if effect is None or effect.low is None or effect.high is None:
        return False
    far = _on_scale(outcome, contrast, limit)
    return effect.high < -far or (outcome.direction is None and effect.low > far)


def _is_within(pair: JudgedPair, limit: float) -> bool:
    """Return whether the interval excludes a worsening beyond the limit."""
    outcome, contrast = pair
    effect = contrast.effect
    if effect is None or effect.low is None or effect.high is None:
        return False
    far = _on_scale(outcome, contrast, limit)
    return bool(effect.low >= -far and (outcome.direction is not None or effect.high <= far))


def _on_scale(outcome: OutcomeComparison, contrast: Contrast, limit: float) -> float:
    """Return the limit on the scale of the effect, as for a margin."""
    if contrast.effect is None or contrast.effect.scale == "log":
        return math.log1p(limit)
    return limit * next((abs(arm.median) for arm in outcome.arms if arm.arm == contrast.control), 0.0)


def _lowest(pair: JudgedPair) -> float:
    effect = pair[1].effect
    return -math.inf if effect is None or effect.low is None else effect.low


def _interval_text(outcome: OutcomeComparison, effect: Effect | None) -> str:
    from ktrial.judge.model.words import interval_phrase

    return (effect and interval_phrase(effect, outcome.unit, outcome.direction)) or "no interval"
