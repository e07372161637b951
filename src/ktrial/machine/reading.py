# SPDX-License-Identifier: Apache-2.0
"""The content of a knob's files on one machine."""

from __future__ import annotations

import msgspec


class Reading(msgspec.Struct, frozen=True):
    """The content of a file, or why there is none. `unreadable` files exist, `invalid` ones refuse every read.

    `locked` marks an invalid file that the system withholds even from root.
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
        """The text, without white space at its ends; None if the file could not be read."""
        return None if self.data is None else self.data.decode(errors="replace").strip()

    @property
    def writable(self) -> bool:
        return self.mode is None or bool(self.mode & 0o222)


class Barred(msgspec.Struct, frozen=True):
    """Why the agent never writes a file, and what root can do about it."""

    reason: str
    hint: str | None


class InstanceState(msgspec.Struct, frozen=True):
    """One instance of a knob: its label ("" if the knob has no instances), its file, and the file's content.

    `read_only` is the read-only mount that contains the file, `barred` why the agent would not write it as root.
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

    `blocked` says why a file that the kernel would offer is invisible (lockdown, debugfs not mounted, needs root);
    `possible` marks a zram device that could be created.
    """

    knob: str
    instances: tuple[InstanceState, ...] = ()
    blocked: str | None = None
    possible: bool = False
