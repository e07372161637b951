# SPDX-License-Identifier: Apache-2.0
"""Reads memory, CPUs, kernel arguments and mode of a guest from command-line options."""

from __future__ import annotations

from ktrial.bench.guest_tools import Mode, Shape
from ktrial.kit.errors import BadInput

_LEAST_MEMORY = 64 << 20


def guest_shape(memory: str, cpus: int | None, append: tuple[str, ...], mode: Mode | None) -> Shape:
    from ktrial.kit.units import parse_quantity, show_bytes

    try:
        memory_bytes = int(parse_quantity(memory, "bytes"))
    except ValueError as error:
        raise BadInput(f"--memory: {error}", hint="for example  --memory 512MiB") from None
    if memory_bytes < _LEAST_MEMORY:
        if memory.isdecimal():
            raise BadInput(f"--memory {memory}: a number without a unit is in bytes", hint="add a unit, such as MiB")
        raise BadInput(
            f"--memory {memory}: a guest needs at least {show_bytes(_LEAST_MEMORY)}",
            hint=f"use --memory {_LEAST_MEMORY >> 20}MiB",
        )
    if mode == "exact" and cpus not in (None, 1):
        raise BadInput(
            f"--cpus {cpus}: an exact guest has one CPU",
            hint="leave out --cpus, or use --mode kvm for several CPUs",
        )
    return Shape(
        mode=mode or "emulated", memory_bytes=memory_bytes, cpus=cpus or (1 if mode == "exact" else 2), append=append
    )
