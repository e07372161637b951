# SPDX-License-Identifier: Apache-2.0
"""The machine of a guest, out of a command line."""

from __future__ import annotations

from ktrial.bench.guest_tools import Mode, Shape
from ktrial.kit.errors import BadInput

_LEAST_MEMORY = 64 << 20


def guest_shape(memory: str, cpus: int | None, append: tuple[str, ...], mode: Mode | None) -> Shape:
    """Return the machine that the options of a command line ask for. Raises BadInput."""
    from ktrial.kit.units import parse_quantity, show_bytes

    try:
        memory_bytes = int(parse_quantity(memory, "bytes"))
    except ValueError as error:
        raise BadInput(f"--memory: {error}") from None
    if memory_bytes < _LEAST_MEMORY:
        raise BadInput(f"--memory {memory}: a guest needs {show_bytes(_LEAST_MEMORY)} or more")
    if mode == "exact" and cpus not in (None, 1):
        raise BadInput(
            f"--cpus {cpus}: an exact guest has one CPU",
            hint="the emulator runs one CPU until it idles, so that a comparison on several means nothing",
        )
    return Shape(
        mode=mode or "emulated",
        memory_bytes=memory_bytes,
        cpus=cpus or (1 if mode == "exact" else 2),
        append=append,
    )
