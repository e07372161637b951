# SPDX-License-Identifier: Apache-2.0
"""Checks that trials of several machines asked the same question; only then can their results be pooled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ktrial.judge.model.log import TrialEnd
from ktrial.kit.errors import BadInput
from ktrial.trial.kept_trial import KeptTrial
from ktrial.trial.protocol.file import TrialFile

#: Fields that must be the same in the files of all trials.
_ALIKE = ("suite", "command", "metrics", "parameters", "control", "baseline", "margin", "arms")


class PooledQuestion(NamedTuple):
    """The question that all trials asked, fixed before their first runs.

    `declared` lists conditions that are meant to differ between arms.
    """

    control: str
    primary: str
    margin: float | None
    declared: tuple[str, ...]


def pooled_question(trials: Sequence[KeptTrial]) -> PooledQuestion:
    """Return the common question. Raise BadInput if a trial asks a different question or is not over."""
    first, *others = trials
    for kept in trials:
        _check_over(kept)
    for kept in others:
        differs = [name for name in _ALIKE if getattr(kept.stored.file, name) != getattr(first.stored.file, name)]
        if kept.protocol.primary != first.protocol.primary:
            differs.append("primary")
        if differs:
            raise BadInput(
                f"cannot pool {kept.stored.trial} with {first.stored.trial}: {_difference(differs[0], first, kept)}",
                hint="pool only trials that were made from the same file",
            )
    file, protocol = first.stored.file, first.protocol
    return PooledQuestion(
        control=protocol.control,
        primary=protocol.primary,
        margin=None if file.margin is None else protocol.outcomes[protocol.primary].margin,
        declared=tuple(_declared(file)),
    )


def _check_over(kept: KeptTrial) -> None:
    name = kept.stored.trial
    if kept.stored.file.screen is not None or kept.stored.file.race:
        raise BadInput(
            f"cannot pool {name}: it is part of a blame or a search, and has no verdicts",
            hint=f"run `ktrial trial show {name}` for the result",
        )
    if not isinstance(kept.log[-1], TrialEnd):
        raise BadInput(
            f"cannot pool {name}: it is not over",
            hint=f"leave out {name}, or run `ktrial trial resume {name}` on its machine",
        )


def _difference(name: str, first: KeptTrial, other: KeptTrial) -> str:
    if name != "arms":
        one, two = (
            kept.protocol.primary if name == "primary" else getattr(kept.stored.file, name) for kept in (first, other)
        )
        return f"its {name} is {_text(two)}, not {_text(one)}"
    one, two = first.stored.file.arms, other.stored.file.arms
    arm = next(arm for arm in (*one, *two) if one.get(arm) != two.get(arm))
    if arm not in one or arm not in two:
        return f"only {(first if arm in one else other).stored.trial} has the arm {arm}"
    fields = (field for field in one[arm].__struct_fields__ if getattr(one[arm], field) != getattr(two[arm], field))
    field = next(fields)
    return f"`{field}` of its arm {arm} is {_text(getattr(two[arm], field))}, not {_text(getattr(one[arm], field))}"


def _text(value: Any) -> str:
    if value is None or value is msgspec.UNSET or value in ((), {}):
        return "unset"
    return msgspec.json.encode(value).decode()


def _declared(file: TrialFile) -> Iterator[str]:
    arms = file.arms.values()
    if any(arm.environment for arm in arms):
        yield "environment"
    if any(arm.parameters for arm in arms):
        yield from ("parameters", "command")
    if any(arm.manual is not None for arm in arms):
        yield from ("kernel", "settings")
