# SPDX-License-Identifier: Apache-2.0
"""The output of `ktrial demo`: what it will try, what it found, and how to check that everything was restored."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.judge.model.words import percent_text, range_text
from ktrial.kit.tables import labelled, paragraph, table
from ktrial.studies.demo.model import COPIUM, HELP, HURT, PLACEBO, Demo, DemoArmFound, DemoFound
from ktrial.trial.protocol.file import CONTROL

_LABEL_COLUMNS = 11


def demo_plan(demo: Demo, *, width: int) -> str:
    lines = [paragraph(f"The demo measures {demo.what}.", width=width)]
    for arm, why in demo.why.items():
        changes = changes_of(demo, arm)
        text = f"{changes}: {why}" if changes else why
        lines.append(labelled(f"  {arm}", text, width=width, label_columns=_LABEL_COLUMNS))
    control = demo.file.arms[CONTROL].set
    for knob, found in demo.found.items():
        lines.append(paragraph(f"{knob} is {found} here; the control of the demo has {control[knob]}.", width=width))
    return "\n".join(lines) + "\n"


def changes_of(demo: Demo, arm: str) -> str:
    """Return the settings in which an arm differs from the control: `vm.swappiness=10`."""
    control, own = demo.file.arms[CONTROL], demo.file.arms[arm]
    different = {name: value for name, value in own.set.items() if control.set.get(name) != value}
    return ", ".join(f"{name}={value}" for name, value in {**different, **own.parameters}.items())


def demo_text(demo: Demo, found: DemoFound, *, width: int) -> str:
    rows = [
        (
            one.arm,
            changes_of(demo, one.arm) or "nothing",
            "-" if one.effect is None else percent_text(one.effect.estimate),
            _interval(one),
            one.verdict or "open",
        )
        for one in found.arms
    ]
    header = ("arm", "changes", "rate", "interval", "verdict")
    return f"{table(header, rows, width=width, whole=1)}\n\n{paragraph(story(demo, found), width=width)}\n"


def _interval(one: DemoArmFound) -> str:
    if one.effect is None or one.effect.low is None or one.effect.high is None:
        return "-"
    return range_text(one.effect.low, one.effect.high)


def story(demo: Demo, found: DemoFound) -> str:
    """Return a text on what was tried, what was found, and what single before/after measurements would have shown."""
    by_arm = {one.arm: one for one in found.arms}
    rounds = f"We measured {demo.what}, in {found.blocks} rounds of random order."
    if found.refused is not None:
        return (
            f"{rounds} The arms cannot be compared: {found.refused}. Change nothing else on the machine during a demo."
        )
    real = [_of_real(demo, by_arm[arm], wanted) for arm, wanted in ((HELP, "better"), (HURT, "worse"))]
    return " ".join([rounds, *real, *_of_nothing(demo, by_arm, found.margin), _of_single_pairs(found)])


def _of_real(demo: Demo, one: DemoArmFound, wanted: str) -> str:
    changes, why = changes_of(demo, one.arm), demo.why[one.arm]
    if one.verdict == wanted and one.effect is not None:
        word = "helps" if wanted == "better" else "hurts"
        return f"{changes} {word} ({percent_text(one.effect.estimate)}): {why}."
    return f"{changes} should be {wanted} ({why}), but here it is {one.verdict or 'undecided'}."


def _of_nothing(demo: Demo, by_arm: Mapping[str, DemoArmFound], margin: float) -> list[str]:
    """Return the results of the arms that cannot matter, in one sentence if all are the same."""
    claims = {
        COPIUM: f"{changes_of(demo, COPIUM)} cannot matter ({demo.why[COPIUM]})",
        PLACEBO: "The placebo changes nothing",
    }
    if by_arm[COPIUM].verdict == by_arm[PLACEBO].verdict:
        both = f"{claims[COPIUM]}, and the placebo changes nothing: "
        return [both + _nothing_found(by_arm[COPIUM], margin)]
    return [f"{claim}: {_nothing_found(by_arm[arm], margin)}" for arm, claim in claims.items()]


def _nothing_found(one: DemoArmFound, margin: float) -> str:
    if one.verdict == "equivalent":
        return f"the trial shows that any difference is below {100 * margin:g} %."
    if one.verdict in {"better", "worse"}:
        return f"yet the verdict is {one.verdict}, a false claim that one demo in a hundred may make."
    return f"the trial claims no difference, but the noise here does not rule out one of {100 * margin:g} %."


def _of_single_pairs(found: DemoFound) -> str:
    single = found.single
    if not single.pairs:
        return ""
    largest = f"the worst by {percent_text(single.largest)}"
    if not single.apart:
        return (
            f"On this quiet machine none of the {single.pairs} single before/after pairs of placebo and copium differs "
            f"by more than {100 * found.margin:g} % ({largest})."
        )
    return (
        f"Yet of the {single.pairs} single before/after pairs of these two with the control, {single.apart} "
        f"({100 * single.share:.0f} %) differ by more than {100 * found.margin:g} %, {largest}: "
        "anyone who runs a benchmark once before and once after a change would believe such a number."
    )


def as_before(before: Mapping[str, str | None], after: Mapping[str, str | None], *, width: int) -> str:
    """Return every written file with its value before and after, and commands to check them."""
    if not before:
        text = "No system setting was changed: the arms differ only in what the load itself requests."
        return paragraph(text, width=width) + "\n"
    rows = [(path, before[path] or "?", after.get(path) or "?") for path in before]
    changed = [path for path in before if before[path] != after.get(path)]
    head = f"NOT restored: {', '.join(changed)}" if changed else "Everything has been restored:"
    look = "\n".join(["See for yourself:", "  ./ktrial status", *(f"  cat {path}" for path in before)])
    return f"{head}\n\n{table(('file', 'before', 'after'), rows, width=width, whole=1)}\n\n{look}\n"


def without_root(demo: Demo, *, asked: bool, width: int) -> str:
    """Return a note on the better demos that are impossible here.

    Return an empty text if there are none, or if the demo changes kernel settings.
    """
    if demo.paths or not demo.passed:
        return ""
    missed = "; ".join(demo.passed)
    more = "With root (sudo ./ktrial demo) the arms are" if asked else "Elsewhere the arms may be"
    text = f"{more} kernel settings instead, which are restored afterwards. Not possible here: {missed}."
    return paragraph(text, width=width) + "\n"
