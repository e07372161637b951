# SPDX-License-Identifier: Apache-2.0
"""What a knob's files showed on one machine."""

from __future__ import annotations

import msgspec


class Reading(msgspec.Struct, frozen=True):
    """One file: its bytes, or why there are none. `unreadable` files exist, `invalid` ones refuse to be read at all.

    `locked` marks an invalid one that the system keeps even from root.
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
        """The text, without white space at its ends; None if it could not be read."""
        return None if self.data is None else self.data.decode(errors="replace").strip()

    @property
    def writable(self) -> bool:
        """Whether its mode lets anybody write; true where the mode is not known."""
        return self.mode is None or bool(self.mode & 0o222)


class Barred(msgspec.Struct, frozen=True):
    """Why the agent does not write a file whoever asks, and what root can do about it."""

    reason: str
    hint: str | None


class InstanceState(msgspec.Struct, frozen=True):
    """One instance of a knob: its name ("" where a knob has only itself), the place used, what it showed.

    `read_only` is the read-only mount that the place lies on, `barred` why the agent would not write it as root.
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

    `blocked` says why a place that the kernel would have cannot be seen (lockdown, debugfs not mounted, needs root);
    `possible` marks a zram that could be made.
    """

    knob: str
    instances: tuple[InstanceState, ...] = ()
    blocked: str | None = None
    possible: bool = False
