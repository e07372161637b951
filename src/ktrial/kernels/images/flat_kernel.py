# SPDX-License-Identifier: Apache-2.0
"""Reads notes and type information (BTF) of a kernel without ELF headers, such as arm64's Image."""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from ktrial.kit.formats import elf

_BUILD_ID = b"GNU", 3
_MOST_BYTES = 64
_BTF = re.compile(re.escape(struct.pack("<HBBI", 0xEB9F, 1, 0, 24)))
_BTF_HEAD = struct.Struct("<8xIIII")
#: A type that only the kernel has; an embedded program with type information does not have it.
_KERNEL_TYPE = b"\0task_struct\0"


class _FlatHead(NamedTuple):
    """Reads an ELF header: the `place` of the section headers, and `sizes`, of which two must equal `wanted`."""

    place: struct.Struct
    sizes: struct.Struct
    wanted: tuple[int, int]


_HEADS = {
    1: _FlatHead(struct.Struct("<32xI"), struct.Struct("<40xHHHHH"), (52, 40)),
    2: _FlatHead(struct.Struct("<40xQ"), struct.Struct("<52xHHHHH"), (64, 64)),
}
_PROGRAM = re.compile(re.escape(elf.MAGIC) + b"[\x01\x02]\x01")
_HEAD_BYTES = 64


def own_build_id(kernel: bytes) -> bytes | None:
    """Return the build ID of the kernel itself, not of embedded programs such as the vDSO; None unless it is unique."""
    return own_note(kernel, *_BUILD_ID)


def own_note(kernel: bytes, owner: bytes, kind: int) -> bytes | None:
    """Return the content of the kernel's own note of this owner and kind; None unless there is exactly one.

    Programs embedded in the kernel, such as the vDSO, have notes too, which don't count.
    """
    name = owner + b"\0" * (4 - len(owner) % 4)
    length = re.escape(struct.pack("<I", len(owner) + 1))
    pattern = re.compile(length + b"(....)" + re.escape(struct.pack("<I", kind) + name), re.DOTALL)
    inside = _Inside(kernel)
    found = set()
    for match in pattern.finditer(kernel):
        (size,) = struct.unpack("<I", match[1])
        whole = size <= _MOST_BYTES and match.end() + size <= len(kernel)
        if whole and not inside.holds(match.start()):
            found.add(kernel[match.end() : match.end() + size])
    return found.pop() if len(found) == 1 else None


class _Inside:
    """The extents of the programs embedded in a kernel."""

    def __init__(self, kernel: bytes) -> None:
        found = list(_programs(kernel))
        self._begins = [begin for begin, _ in found]
        self._ends = list(accumulate((end for _, end in found), max))

    def holds(self, place: int) -> bool:
        before = bisect_left(self._begins, place)
        return before > 0 and place < self._ends[before - 1]


def _programs(kernel: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each embedded ELF file, up to the end of its section headers."""
    for match in _PROGRAM.finditer(kernel):
        begin = match.start()
        data = kernel[begin : begin + _HEAD_BYTES]
        head = _HEADS[kernel[begin + 4]]
        if len(data) < _HEAD_BYTES:
            continue
        (offset,) = head.place.unpack_from(data)
        own, _, _, size, count = head.sizes.unpack_from(data)
        if (own, size) == head.wanted:
            yield begin, begin + offset + size * count


def has_btf(kernel: bytes) -> bool:
    named = [match.start() for match in re.finditer(re.escape(_KERNEL_TYPE), kernel)]
    for match in _BTF.finditer(kernel):
        data = kernel[match.start() : match.start() + _BTF_HEAD.size]
        if len(data) == _BTF_HEAD.size:
            _, _, at, size = _BTF_HEAD.unpack(data)
            begin = match.start() + _BTF_HEAD.size + at
            first = bisect_left(named, begin)
            if first < len(named) and named[first] + len(_KERNEL_TYPE) <= begin + size:
                return True
    return False
