# SPDX-License-Identifier: Apache-2.0
"""The subset of JSONPath that names a single place: `$.jobs[0].read['clat_ns'].mean`, `$[-1]`. No wildcards."""

from __future__ import annotations

import re
from typing import Any

from ktrial.kit.errors import BadInput, BadRun

_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)
      | \[(?P<index>-?(?:0|[1-9][0-9]{0,8}))\]
      | \['(?P<single>(?:[^'\\]|\\['\\])+)'\]
      | \["(?P<double>(?:[^"\\]|\\["\\])+)"\]""",
    re.VERBOSE,
)
_BEGINS = ("$.", "$[")
_USAGE = "use only .name, ['any name'], [0] and [-1], for example  $.jobs[0].read.iops"
_ELSEWHERE = "use a path that leads to a number in the document"
#: A message lists at most this many keys of an object.
_LISTED = 8

Step = str | int


def is_path(text: str) -> bool:
    """Return whether the text is meant as a path; no useful regular expression begins with `$.` or `$[`."""
    return text.startswith(_BEGINS)


def parse_path(text: str) -> tuple[Step, ...]:
    """Return the keys and indices of a path. Raise BadInput if the text is not a path."""
    steps: list[Step] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise BadInput(f"invalid JSON path {text} at character {at + 1}: {text[at:]!r}", hint=_USAGE)
        if (index := match["index"]) is not None:
            steps.append(int(index))
        else:
            quoted = match["single"] or match["double"]
            steps.append(match["name"] or re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        at = match.end()
    if not is_path(text) or not steps:
        raise BadInput(f"{text!r} is not a JSON path", hint=_USAGE)
    return tuple(steps)


def select(document: Any, text: str) -> int | float:
    """Return the number at the path `text`. Raise BadRun if the path leads to no number."""
    place, value = "$", document
    for step in parse_path(text):
        value = _inside(value, step, place, text)
        place += f"[{step}]" if isinstance(step, int) else f"[{step!r}]"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRun(f"{text} is {_kind(value)}, not a number", hint=_ELSEWHERE)
    return value


def _inside(value: Any, step: Step, place: str, text: str) -> Any:
    nowhere = f"cannot find {text}, because {place}"
    if isinstance(step, int):
        if not isinstance(value, list):
            raise BadRun(f"{nowhere} is {_kind(value)}, not a list", hint=_step_for(value))
        if not -len(value) <= step < len(value):
            raise BadRun(
                f"{nowhere} has {len(value)} elements, so [{step}] does not exist",
                hint="use an index of this list; [0] is its first element" if value else _ELSEWHERE,
            )
        return value[step]
    if not isinstance(value, dict):
        raise BadRun(f"{nowhere} is {_kind(value)}, not an object", hint=_step_for(value))
    if not value:
        raise BadRun(f"{nowhere} is an empty object", hint=_ELSEWHERE)
    if step not in value:
        listed = ", ".join(list(value)[:_LISTED]) + (", …" if len(value) > _LISTED else "")
        raise BadRun(f"{nowhere} has no {step!r}; it has {listed}", hint=f"use one of these names in place of {step!r}")
    return value[step]


def _step_for(value: Any) -> str:
    """Return how to continue a path at this value."""
    if isinstance(value, dict):
        return "continue the path with a name, as in .mean"
    if isinstance(value, list):
        return "continue the path with an index, as in [0]"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "end the path at this number" if is_number else _ELSEWHERE


def _kind(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return "null" if value is None else str(value).lower()
