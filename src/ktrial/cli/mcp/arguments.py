# SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of tools against a closed list of forms, before they become words of a command line.

Every word for a command line starts with a letter or a digit and contains only ASCII. It can be neither an option nor
an absolute path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ktrial.kit.errors import BadInput

_INSTANCE = r"\*|[A-Za-z0-9][A-Za-z0-9_.*-]{0,63}|\[[a-z_.]{1,40}=[A-Za-z0-9_.-]{1,40}\]"
_KNOB = rf"[a-z][A-Za-z0-9_.:-]{{0,99}}(?:@(?:{_INSTANCE}))?"
_PROFILE = r"[a-z0-9][a-z0-9-]{0,63}"
_MOST_WORDS = 32
_MOST_BYTES = 64 << 10
_SHOWN = 60


class Form(NamedTuple):
    """What a word must look like; `example` is shown to people."""

    pattern: str
    example: str


KNOB = Form(_KNOB, "vm.swappiness")
SETTING = Form(rf"{_KNOB}=[A-Za-z0-9_.,:+/%-][A-Za-z0-9_.,:+/% -]{{0,79}}|{_PROFILE}", "vm.swappiness=10")
NAME = Form(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}", "swappiness-10-3fa9c1")
FACT = Form(r"[a-z][a-z0-9_.]{0,63}", "memory")
OUTCOME = Form(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,119}", "agent-lock.event-rate")
SHARE = Form(r"[0-9]{1,2}(?:\.[0-9]{1,3})?%", "5%")
CLAIM = Form(r"[A-Za-z][A-Za-z0-9 ._+%-]{0,119}", "latency p50 -43%")
TOKEN = Form(r"[A-Za-z0-9_-]{43}", "the token that `plan` gave")


class Parameter(NamedTuple):
    """One argument of a tool: a word or a list of words that fit `form`, a number in a range, or one of `choices`."""

    name: str
    help: str
    form: Form | None = None
    is_list: bool = False
    numbers: tuple[int, int] | None = None
    choices: tuple[str, ...] = ()
    required: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The parameter as JSON Schema."""
        about: dict[str, Any] = {"description": self.help}
        if self.choices:
            return {"type": "string", "enum": list(self.choices), **about}
        if self.numbers is not None:
            return {"type": "integer", "minimum": self.numbers[0], "maximum": self.numbers[1], **about}
        assert self.form is not None
        word = {"type": "string", "pattern": f"^(?:{self.form.pattern})$"}
        if self.is_list:
            return {"type": "array", "items": word, "minItems": 1, "maxItems": _MOST_WORDS, **about}
        return {**word, **about}

    def check(self, value: Any) -> Any:
        """Return the value; turn a list into a tuple without duplicates. Raise BadInput if the value is not allowed."""
        if self.numbers is not None:
            least, most = self.numbers
            if type(value) is not int or not least <= value <= most:
                shown = _show_value(value)
                raise BadInput(
                    f"{self.name}: expected a whole number from {least} to {most}, got {shown}",
                    hint=f"for example {least}",
                )
            return value
        if not self.is_list:
            return self._word(value)
        if not isinstance(value, list) or not 1 <= len(value) <= _MOST_WORDS:
            example = "" if self.form is None else self.form.example
            raise BadInput(
                f"{self.name}: expected a list of 1 to {_MOST_WORDS} words", hint=f'for example  ["{example}"]'
            )
        return tuple(dict.fromkeys(self._word(one) for one in value))

    @property
    def _hint(self) -> str:
        if self.form is None:
            return f"use one of: {', '.join(self.choices)}"
        return f"give {self.form.example}" if self.form is TOKEN else f"for example {self.form.example}"

    def _word(self, value: Any) -> str:
        if isinstance(value, str):
            if self.choices and value in self.choices:
                return value
            if self.form is not None and re.fullmatch(self.form.pattern, value, re.ASCII):
                return value
        wanted = f"one of {', '.join(self.choices)}" if self.form is None else f"text like {self.form.example}"
        raise BadInput(f"{self.name}: expected {wanted}, got {_show_value(value)}", hint=self._hint)


def _show_value(value: Any) -> str:
    shown = ascii(value if isinstance(value, str | int | float | None) else type(value).__name__)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def object_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the JSON Schema of all arguments of a tool."""
    return {
        "type": "object",
        "properties": {one.name: one.schema for one in parameters},
        "required": [one.name for one in parameters if one.required],
        "additionalProperties": False,
    }


def checked(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments in the order of the parameters. Raise BadInput if one is unknown, missing or wrong."""
    known = {one.name: one for one in parameters}
    if unknown := [name for name in given if name not in known]:
        hint = f"use one of: {', '.join(known)}" if known else "leave out all arguments"
        raise BadInput(f"unknown argument: {ascii(unknown[0])[:_SHOWN]}", hint=hint)
    if missing := [one.name for one in parameters if one.required and one.name not in given]:
        raise BadInput(f"missing argument: {missing[0]}", hint=f"add {missing[0]}: {known[missing[0]].help}")
    return {name: one.check(given[name]) for name, one in known.items() if name in given}


def bounded(value: Any) -> Any:
    """Return arguments for the audit log, without tokens; if they are long, only the beginning of their JSON."""
    from ktrial.kit import plain_json

    if isinstance(value, dict):
        value = {name: "(given)" if name == "token" else one for name, one in value.items()}
    try:
        written = plain_json.line(value)
    except UnicodeEncodeError:  # half a character
        value = written = ascii(value)
    return value if len(written) <= _MOST_BYTES // 16 else f"{written[: _MOST_BYTES // 16]}… ({len(written)} bytes)"
