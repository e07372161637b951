# SPDX-License-Identifier: Apache-2.0
"""The state of a knob on this machine: its instances, and the content of their files."""

from __future__ import annotations

import msgspec


class Reading(msgspec.Struct, frozen=True):
    """The content of a file, or the reason why there is none.

    `unreadable` is the reason why this read failed, `invalid` why every read fails. `locked` marks an invalid file
    that the system withholds even from root.
    """

    data: bytes | None = None
    mode: int | None = None
    unreadable: str | None = None
    invalid: str | None = None
    locked: bool = False

    @property
    def readable(self) -> bool:
        return self.data is not None

    @property
    def text(self) -> str | None:
        """The stripped text; None if the file could not be read."""
        return None if self.data is None else self.data.decode(errors="replace").strip()

    @property
    def writable(self) -> bool:
        return self.mode is None or bool(self.mode & 0o222)


class Barred(msgspec.Struct, frozen=True):
    """Why the agent never writes a file, and what root can do about it."""

    reason: str
    hint: str | None


class InstanceState(msgspec.Struct, frozen=True):
    """One instance of a knob: its label, its file and the file's content. A knob without instances has an empty label.

    `read_only` is the read-only mount that contains the file; `barred` says why the agent would not write the file.
    `effective` is the path of a file that shows the value in effect. `siblings` are texts of neighbouring files, for
    example the choices that the kernel offers.
    """

    label: str
    path: str
    reading: Reading
    effective: str | None = None
    siblings: dict[str, str] = {}
    read_only: str | None = None
    barred: Barred | None = None


class KnobState(msgspec.Struct, frozen=True):
    """All instances of a knob on this machine.

    `blocked` says why a file of the kernel is invisible: lockdown, unmounted debugfs or missing root. `possible` means
    that ktrial could create the zram device.
    """

    knob: str
    instances: tuple[InstanceState, ...] = ()
    blocked: str | None = None
    possible: bool = False
