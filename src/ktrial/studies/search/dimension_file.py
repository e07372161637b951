# SPDX-License-Identifier: Apache-2.0
"""A dimension as a person writes it.

Kernel arguments, kernels and Kconfig symbols need a boot for each value. The control usually lacks the kernel
argument. The control's kernel is the first one of the list, and a symbol's default is its value in the control's
configuration.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import msgspec

from ktrial.kit.errors import BadInput, Contradiction
from ktrial.trial.protocol.file import Value

#: Values of a kernel argument: it is not on the command line; it is there without a value.
ABSENT, GIVEN = "absent", "given"
#: Kinds of dimensions whose values need a boot.
BOOTED = ("boot", "kernel", "kconfig")
#: What a dimension can be.
KINDS = ("knob", "placeholder", "environment", *BOOTED)
#: Kernels that the symbols of a space may need together.
MOST_KERNELS = 16
BOOT_PREFIX, KCONFIG_PREFIX = "boot:", "kconfig:"
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]+")
_SYMBOL = re.compile(r"[A-Za-z0-9_]+", re.ASCII)


class DimensionFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that varies: a knob, a placeholder of the command or of a file, or a variable of the environment.

    In guests it may also be a kernel argument (`boot`), the kernel itself (`kernel`, a list to choose from) or a
    symbol of Kconfig (`kconfig`). Its values are a range (`low` to `high`, in steps of `step`, with `log` on a
    logarithmic scale), or a list. `default` is the control's value; for a knob, the machine's present value. `when` has
    conditions on other dimensions. While a condition does not hold, the dimension keeps its default.
    """

    knob: str | None = None
    placeholder: str | None = None
    environment: str | None = None
    boot: str | None = None
    kernel: tuple[str, ...] | None = None
    kconfig: str | None = None
    low: int | float | None = None
    high: int | float | None = None
    step: int | float | None = None
    log: bool = False
    values: tuple[Value, ...] = ()
    default: Value | None = None
    when: str | tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that the dimension names; a valid dimension names exactly one kind."""
        return tuple(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def name(self) -> str:
        (kind, *_) = self.kinds or ("",)
        if kind in {"boot", "kconfig"}:
            return f"{kind}:{getattr(self, kind)}"
        return kind if kind == "kernel" else getattr(self, kind, "")


def check_booted(dimensions: Iterable[DimensionFile]) -> None:
    """Raise BadInput for invalid dimensions that need a boot, or if they need too many kernels."""
    every = tuple(dimensions)
    for one in every:
        if one.kernel is not None:
            _check_kernels(one)
        elif one.boot is not None or one.kconfig is not None:
            _check_word(one)
    if any(one.kernel for one in every) and any(one.kconfig for one in every):
        raise Contradiction(
            "a space cannot have both kernels and Kconfig symbols: a built kernel cannot change its symbols",
            hint="replace the symbols with more kernels, which `ktrial kernel build` builds",
        )
    count = math.prod(len(one.values) for one in every if one.kconfig is not None)
    if count > MOST_KERNELS:
        raise BadInput(
            f"the Kconfig symbols need up to {count} kernels (maximum {MOST_KERNELS})",
            hint="leave out symbols or values",
        )


def _check_kernels(one: DimensionFile) -> None:
    if one.values or one.low is not None or one.high is not None or one.default is not None:
        raise BadInput(
            "kernel: expected no values, low, high or default besides the list of kernels",
            hint='write only the list, for example  kernel = ["running", "./build"]',
        )
    if one.kernel is None or len(set(one.kernel)) < max(2, len(one.kernel)) or not all(one.kernel):
        raise BadInput(
            "kernel: expected at least two different kernels", hint='for example  kernel = ["running", "./build"]'
        )


def _check_word(one: DimensionFile) -> None:
    word, pattern = (one.boot, _ARGUMENT) if one.boot is not None else (one.kconfig, _SYMBOL)
    if not pattern.fullmatch(word or ""):
        what, example = (
            ("kernel argument", 'boot = "mitigations"')
            if one.boot is not None
            else ("Kconfig symbol", 'kconfig = "HZ_1000"')
        )
        raise BadInput(f"{word!r} is not the name of a {what}", hint=f"for example  {example}")
    if not one.values:
        raise BadInput(f"{one.name}: expected a list of values", hint="add  values = [false, true]  or a list of words")
    for value in (*one.values, *(() if one.default is None else (one.default,))):
        if isinstance(value, str) and (not value or value.split() != [value] or '"' in value):
            raise BadInput(
                f"{one.name}: expected a word without spaces and quotation marks in it, got {value!r}",
                hint='for example  values = ["auto", "off"]',
            )


def booted_value(name: str, value: Value) -> Value:
    """Return a value as ktrial stores it.

    `true` and `false` become `given` and `absent` for a kernel argument, and `y` and `n` for a symbol.
    """
    if name.startswith(KCONFIG_PREFIX):
        text = ("y" if value else "n") if isinstance(value, bool) else str(value)
        return int(text) if text.isdecimal() else text
    if name.startswith(BOOT_PREFIX) and isinstance(value, bool):
        return GIVEN if value else ABSENT
    return value


def booted_default(one: DimensionFile) -> Value | None:
    """Return the control's value of a dimension that needs a boot; None if only the control's kernel shows it."""
    if one.kernel is not None:
        return one.kernel[0]
    if one.default is not None:
        return booted_value(one.name, one.default)
    return ABSENT if one.boot is not None else None


def booted_values(one: DimensionFile, default: Value) -> tuple[Value, ...]:
    """Return all values of a dimension that needs a boot, including the control's."""
    values: tuple[Value, ...] = one.kernel or tuple(booted_value(one.name, value) for value in one.values)
    return values if default in values else (default, *values)
