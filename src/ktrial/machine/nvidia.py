# SPDX-License-Identifier: Apache-2.0
"""NVIDIA graphics cards, read without privileges through the driver's library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import ClassVar

from ktrial.machine.sensors import MISSING, Sensor

LIBRARY = "libnvidia-ml.so.1"
_NOT_SUPPORTED = 3
_NAME_BYTES = 96
_GRAPHICS, _MEMORY = 0, 2
_MHZ = 1_000_000


class NvmlAbsent(Exception):
    """The machine has no readable card; the message says why."""


class NvmlFailed(Exception):
    """The library failed; the message says why."""


class _Load(ctypes.Structure):
    _fields_: ClassVar = [("card", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_: ClassVar = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _NotSupported(Exception):
    """The card does not support this reading."""


class Nvml:
    """Reads all cards; `columns` describes the values that `read` returns, in order."""

    def __init__(self, library: str = LIBRARY) -> None:
        """Open the library. Raise NvmlAbsent if there is no readable card, NvmlFailed if the library fails."""
        try:
            self._library = ctypes.CDLL(library)
            for needed in ("nvmlInit_v2", "nvmlShutdown", "nvmlDeviceGetCount_v2", "nvmlErrorString"):
                getattr(self._library, needed)
        except OSError:
            raise NvmlAbsent(f"no {library}: the NVIDIA driver is not installed") from None
        except AttributeError as error:
            raise NvmlFailed(f"{library} is not NVIDIA's library: {error}") from None
        self._call("nvmlInit_v2")
        self._cards: list[ctypes.c_void_p] = []
        self.names: tuple[str, ...] = ()
        self.columns: dict[str, Sensor] = {}
        self.lacking: tuple[str, ...] = ()
        self._reads: list[Callable[[], tuple[int, ...]]] = []
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def read(self) -> list[int]:
        found: list[int] = []
        for one in self._reads:
            found += one()
        return found

    def close(self) -> None:
        self._library.nvmlShutdown()

    def _open(self) -> None:
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        if not count.value:
            raise NvmlAbsent("the NVIDIA driver finds no card")
        lacking, names = [], []
        for number in range(count.value):
            card = ctypes.c_void_p()
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(card))
            names.append(self._name(card))
            lacking += self._add(f"gpu.nvidia{number}", card)
        self.names, self.lacking = tuple(names), tuple(lacking)
        if not self._reads:
            raise NvmlAbsent(f"{', '.join(names)} supports none of {', '.join(lacking)}")

    def _name(self, card: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("nvmlDeviceGetName", card, text, ctypes.c_uint(_NAME_BYTES))
        return text.value.decode("utf-8", "replace")

    def _add(self, name: str, card: ctypes.c_void_p) -> list[str]:
        """Add a column for each reading that the card supports; return the names of unsupported ones."""
        share = Sensor(unit="", per_unit=100, kind="level")
        size = Sensor(unit="B", per_unit=1, kind="level")
        watts = Sensor(unit="W", per_unit=1000, kind="level")
        clock = Sensor(unit="Hz", per_unit=1, kind="level")
        offered: tuple[tuple[dict[str, Sensor], Callable[[], tuple[int, ...]]], ...] = (
            ({"busy": share, "memory_busy": share}, lambda: self._load(card)),
            ({"vram_total": size, "vram_used": size}, lambda: self._memory(card)),
            ({"power": watts}, lambda: (self._number("nvmlDeviceGetPowerUsage", card),)),
            ({"frequency": clock}, lambda: (self._clock(card, _GRAPHICS),)),
            ({"memory_frequency": clock}, lambda: (self._clock(card, _MEMORY),)),
        )
        lacking = []
        for columns, read in offered:
            try:
                read()
            except (_NotSupported, AttributeError):
                lacking += [f"{name}.{what}" for what in columns]
                continue
            self.columns |= {f"{name}.{what}": sensor for what, sensor in columns.items()}
            self._reads.append(_or_missing(read, len(columns)))
        return lacking

    def _load(self, card: ctypes.c_void_p) -> tuple[int, ...]:
        found = _Load()
        self._call("nvmlDeviceGetUtilizationRates", card, ctypes.byref(found))
        return found.card, found.memory

    def _memory(self, card: ctypes.c_void_p) -> tuple[int, ...]:
        found = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", card, ctypes.byref(found))
        return found.total, found.used

    def _clock(self, card: ctypes.c_void_p, which: int) -> int:
        found = ctypes.c_uint()
        self._call("nvmlDeviceGetClockInfo", card, ctypes.c_int(which), ctypes.byref(found))
        return found.value * _MHZ

    def _number(self, name: str, card: ctypes.c_void_p) -> int:
        found = ctypes.c_uint()
        self._call(name, card, ctypes.byref(found))
        return found.value

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status == _NOT_SUPPORTED:
            raise _NotSupported(name)
        if status:
            raise NvmlFailed(f"{name}: {self._words(status)}")

    def _words(self, status: int) -> str:
        describe = self._library.nvmlErrorString
        describe.restype = ctypes.c_char_p
        text = describe(ctypes.c_int(status))
        return f"error {status}" if text is None else f"{text.decode('utf-8', 'replace')} ({status})"


def _or_missing(read: Callable[[], tuple[int, ...]], count: int) -> Callable[[], tuple[int, ...]]:
    """Wrap a reading so that it returns MISSING once the card no longer supports it."""

    def found() -> tuple[int, ...]:
        try:
            return read()
        except _NotSupported:
            return (MISSING,) * count

    return found
