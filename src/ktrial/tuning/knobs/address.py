# SPDX-License-Identifier: Apache-2.0
"""Parse the names of knobs, instances and settings, such as `queue:scheduler@[rotational=false]=none`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput


class Address(msgspec.Struct, frozen=True):
    """A knob and, if it has instances, a selector for them."""

    knob: str
    selector: str | None = None

    def __str__(self) -> str:
        return self.knob if self.selector is None else f"{self.knob}@{self.selector}"


def parse_address(text: str) -> Address:
    """Return the address in a text such as `vm.swappiness`, `queue:scheduler@nvme*` or `…@[rotational=false]`.

    Raise BadInput for other texts.
    """
    knob, at, selector = text.partition("@")
    if not knob or any(character.isspace() for character in knob) or (at and not selector):
        raise BadInput(
            f"{text!r} is not a knob's name",
            hint="use a name such as vm.swappiness or queue:scheduler@nvme0n1; `ktrial knobs` lists all",
        )
    if selector.startswith("["):
        selector_conditions(selector)
    return Address(knob, selector if at else None)


def parse_assignment(text: str) -> tuple[Address, str]:
    """Return the address and the value of KNOB=VALUE, split at the first `=` outside brackets.

    Raise BadInput if there is no such `=` or no value.
    """
    depth = 0
    for position, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "=" and depth == 0:
            value = text[position + 1 :].strip()
            if not value:
                raise BadInput(f"{text!r} has no value", hint="write KNOB=VALUE, for example vm.swappiness=10")
            return parse_address(text[:position].strip()), value
    if depth > 0:
        raise BadInput(
            f"{text!r}: the selector has no closing bracket",
            hint="close the selector with ], for example queue:scheduler@[rotational=false]=none",
        )
    raise BadInput(f"{text!r} is not a setting", hint="write KNOB=VALUE, for example vm.swappiness=10")


def is_assignment(text: str) -> bool:
    return "=" in text


def selector_conditions(selector: str) -> dict[str, str]:
    """Return the fields and values that a selector such as `[rotational=false,transport=nvme]` requires.

    Raise BadInput for an invalid selector.
    """
    if not selector.endswith("]"):
        raise BadInput(
            f"the selector {selector!r} has no closing bracket",
            hint="close the selector with ], for example queue:scheduler@[rotational=false]",
        )
    conditions: dict[str, str] = {}
    for part in selector[1:-1].split(","):
        field, equals, wanted = part.partition("=")
        if not equals or not field.strip() or not wanted.strip():
            raise BadInput(
                f"expected FIELD=VALUE in the selector {selector!r}, got {part!r}",
                hint="for example  queue:scheduler@[rotational=false]",
            )
        conditions[field.strip()] = wanted.strip()
    return conditions


def group_pattern(selector: str) -> str | None:
    """Return a pattern for listing the nested control groups of a selector; None if the selector has no `/`.

    Raise BadInput if the selector is not a path.
    """
    parts = selector.split("/")
    if len(parts) == 1:
        return None
    if any(part in {"", ".", ".."} for part in parts):
        raise BadInput(
            f"{selector!r} is not the path of a control group",
            hint="write the path below /sys/fs/cgroup without / at its ends, for example  user.slice/user-1000.slice",
        )
    return re.sub(r"\?|\[[^\]/]{0,100}\]", "*", selector)


def selects(selector: str, label: str, record: Mapping[str, Any] | None, *, nested: bool = False) -> bool:
    """Return whether a selector matches an instance by a name pattern or by fields of its fact record.

    For nested instances `*` matches within one path component, and a group does not stand for the groups inside it.
    """
    if nested:
        parts, wanted = label.split("/"), selector.split("/")
        fits = len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))
        return fits or label == selector
    if not selector.startswith("["):
        return any(fnmatch.fnmatchcase(name, selector) for name in (label, label.partition("/")[0]))
    if record is None:
        return False
    return all(_text(record.get(field)) == wanted for field, wanted in selector_conditions(selector).items())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
