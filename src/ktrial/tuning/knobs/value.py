# SPDX-License-Identifier: Apache-2.0
"""Check values of knobs, convert them to the kernel's text, and compare them with what the kernel shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ktrial.kit.errors import BadInput
from ktrial.kit.units import parse_quantity
from ktrial.tuning.knobs.knob import Knob

_TRUE = {"1", "y", "yes", "on", "true", "enabled"}
_FALSE = {"0", "n", "no", "off", "false", "disabled"}
#: At most 25 digits, which is more than any kernel value has.
_WHOLE = r"[+-]?(?:(0[xX])[0-9a-fA-F]{1,25}|[0-9]{1,25})"
_TEXT_LIMIT_BYTES = 4096
_BRACKETED = r"[\[(]([^\])]*)[\])]"


def kernel_text(knob: Knob, value: Any) -> str:
    """Return the text to write for `value`, without a newline. Raise BadInput if the knob does not accept `value`."""
    if isinstance(value, str) and value in knob.value.special:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and str(value) in knob.value.special:
        return str(value)
    return _WRITERS[knob.value.type](knob, value)


#: Boolean kernel arguments that the kernel accepts with `=1` and `=0` only, as it does parameters of modules.
_WITH_VALUE = frozenset({"boot:psi"})


def kernel_argument(knob: Knob, text: str) -> str | None:
    """Return the kernel argument that sets a boot parameter to `text`; None to leave out a flag that is off."""
    name = knob.short_name
    if knob.value.type == "bool" and "." not in name and knob.id not in _WITH_VALUE:
        return name if text == "1" else None
    if knob.value.type == "choice" and text == "on" and "off" not in knob.value.choices:
        return name
    return f"{name}={text}"


def show_value(value: Any) -> str:
    """Return a value as a person would write it. A computed value is shown as its recipe."""
    if isinstance(value, dict):
        rest = ", ".join(f"{key} {show_value(item)}" for key, item in value.items() if key != "compute")
        return f"{value.get('compute')} ({rest})" if rest else str(value.get("compute"))
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return str(value)


def active_text(knob: Knob, shown: str) -> str:
    """Return the active part of what the kernel shows: the bracketed word, the feature's token, or everything."""
    if knob.rule == "choice":
        match = re.search(_BRACKETED, shown)
        return match[1] if match else shown.strip()
    if knob.rule == "token":
        words = shown.split()
        for token in (knob.short_name, f"NO_{knob.short_name}"):
            if token in words:
                return token
        return ""
    return " ".join(shown.split())


def offered(shown: str) -> tuple[str, ...]:
    """Return the words that the kernel offers: `none` and `mq-deadline` for `[none] mq-deadline`.

    Return no words if no word is in brackets.
    """
    return tuple(word.strip("[]()") for word in shown.split()) if re.search(_BRACKETED, shown) else ()


def same_value(knob: Knob, left: str, right: str) -> bool:
    """Return whether two kernel texts are equal under the knob's rule."""
    if left == right:
        return True
    if knob.rule in {"integer", "clamped"}:
        return _number(left) is not None and _number(left) == _number(right)
    if knob.rule == "boolean":
        return _truth(left) is not None and _truth(left) == _truth(right)
    if knob.rule == "mask":
        return _mask(left) is not None and _mask(left) == _mask(right)
    return False


def _bad(knob: Knob, value: Any, why: str, hint: str | None = None) -> BadInput:
    return BadInput(
        f"{knob.id}={show_value(value)}: {why}", hint=hint or f"run `ktrial explain {knob.id}` to see its values"
    )


def _int(knob: Knob, value: Any) -> str:
    number = _as_number(knob, value)
    low, high = knob.value.min, knob.value.max
    if (low is not None and number < low) or (high is not None and number > high):
        span = f"minimum {low}" if high is None else f"maximum {high}" if low is None else f"{low} to {high}"
        raise _bad(knob, value, f"out of range ({span})")
    return str(number)


def _as_number(knob: Knob, value: Any) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        number = _number(value)
        if number is not None:
            return number
        if knob.value.unit in {"bytes", "kB", "KiB"}:
            try:
                size_bytes = parse_quantity(value, "bytes")
            except ValueError as error:
                raise _bad(knob, value, str(error)) from None
            return int(size_bytes) if knob.value.unit == "bytes" else int(size_bytes // 1024)
    raise _bad(knob, value, "not a whole number")


def _bool(knob: Knob, value: Any) -> str:
    truth = _truth(show_value(value))
    if truth is None:
        raise _bad(knob, value, "neither on nor off", hint="write on or off")
    return "1" if truth else "0"


def _choice(knob: Knob, value: Any) -> str:
    text = _text(knob, value)
    if knob.value.choices and text not in knob.value.choices:
        raise _bad(knob, value, f"not one of {', '.join(knob.value.choices)}")
    return text


def _text(knob: Knob, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _bad(knob, value, "expected a string")
    text = str(value).strip()
    if not text:
        raise _bad(knob, repr(value), "the value is empty")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise _bad(knob, repr(value), "the value contains control characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _bad(knob, repr(value), "not UTF-8")
    if len(text.encode()) > _TEXT_LIMIT_BYTES:
        raise _bad(knob, f"{text[:20]}…", f"longer than {_TEXT_LIMIT_BYTES} bytes")
    return text


def _ints(knob: Knob, value: Any) -> str:
    items: Sequence[Any] = value if isinstance(value, list | tuple) else show_value(value).split()
    if knob.value.count is not None and len(items) != knob.value.count:
        raise _bad(knob, value, f"expected {knob.value.count} numbers, got {len(items)}")
    return " ".join(_int(knob, item) for item in items)


def _mask_text(knob: Knob, value: Any) -> str:
    text = show_value(value)
    if _mask(text) is None:
        raise _bad(knob, value, "not a CPU mask", hint="write a hexadecimal mask, for example  3 for CPUs 0 and 1")
    return text


def _feature(knob: Knob, value: Any) -> str:
    truth = _truth(show_value(value))
    if truth is None and show_value(value) in {knob.short_name, f"NO_{knob.short_name}"}:
        return show_value(value)
    if truth is None:
        raise _bad(knob, value, "neither on nor off", hint="write on or off")
    return knob.short_name if truth else f"NO_{knob.short_name}"


_WRITERS = {
    "int": _int,
    "bool": _bool,
    "choice": _choice,
    "text": _text,
    "ints": _ints,
    "mask": _mask_text,
    "feature": _feature,
}


def _number(text: str) -> int | None:
    match = re.fullmatch(_WHOLE, text.strip())
    if match is None:
        return None
    return int(match[0], 16 if match[1] else 10)


def _truth(text: str) -> bool | None:
    folded = text.strip().lower()
    return True if folded in _TRUE else False if folded in _FALSE else None


def _mask(text: str) -> int | None:
    folded = text.strip().replace(",", "").lower().removeprefix("0x")
    return int(folded, 16) if re.fullmatch(r"[0-9a-f]+", folded) else None
