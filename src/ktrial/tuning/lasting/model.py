# SPDX-License-Identifier: Apache-2.0
"""The parts of a plan that makes settings last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from ktrial.tuning.exports.model import Omission
from ktrial.tuning.plans.model import Change, Plan

Form = Literal[
    "sysctl.d",
    "tmpfiles.d",
    "modprobe.d",
    "udev",
    "zram-generator",
    "systemd-unit",
    "systemd-wants",
    "grub.d",
    "scx-loader",
    "scx-loader-folder",
    "scx-service",
    "scx-wants",
]
FORMS: tuple[Form, ...] = get_args(Form)
#: The file of each form, with a name that wins. Letters sort after digits, and later lines win; but systemd-tmpfiles
#: takes the first line for a path.
PLACES: Mapping[Form, str] = {
    "sysctl.d": "/etc/sysctl.d/ktrial.conf",
    "tmpfiles.d": "/etc/tmpfiles.d/00-ktrial.conf",
    "modprobe.d": "/etc/modprobe.d/ktrial.conf",
    "udev": "/etc/udev/rules.d/ktrial.rules",
    "zram-generator": "/etc/systemd/zram-generator.conf.d/ktrial.conf",
    "systemd-unit": "/etc/systemd/system/ktrial-keep.service",
    "systemd-wants": "/etc/systemd/system/multi-user.target.d/ktrial.conf",
    "grub.d": "/etc/default/grub.d/ktrial.cfg",
    "scx-loader": "/etc/scx_loader.toml",
    "scx-loader-folder": "/etc/scx_loader/config.toml",
    "scx-service": "/etc/default/scx",
    "scx-wants": "/etc/systemd/system/multi-user.target.d/ktrial-scx.conf",
}
#: Files that may be the user's: ktrial owns only some of their lines.
SHARED_FORMS: tuple[Form, ...] = ("scx-loader", "scx-loader-folder", "scx-service")
#: The agent's names of forms that have several files here.
WIRE_FORMS: Mapping[Form, str] = {"scx-loader-folder": "scx-loader", "scx-wants": "systemd-wants"}


#: The timer that `ktrial keep --watch-drift` installs.
DRIFT_TIMER = "/etc/systemd/system/ktrial-drift.timer"


class LastingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a kept file, as the agent reads it. `values` and `reasons` map addresses of knobs to texts."""

    form: Form
    holds: Mapping[str, Any]
    values: Mapping[str, str]
    reasons: Mapping[str, str] = {}


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a trial on exactly one setting, or on the whole arm; `text` is the reason to write into a file."""

    verdict: str
    text: str


class Rival(msgspec.Struct, frozen=True):
    """Another writer of a kept setting: a line of a file, or a service. If it `wins`, the kept value does not last."""

    address: str
    place: str
    value: str | None
    wins: bool
    when: str


class KeptFile(msgspec.Struct, frozen=True):
    """A file that ktrial keeps: its text according to the journal, and its present text (None without a file)."""

    form: Form
    text: str
    now: str | None

    @property
    def is_edited(self) -> bool:
        return self.text != self.now


class FileChange(msgspec.Struct, frozen=True):
    """A kept file before and after a change; None means that there is no file."""

    form: Form
    before: str | None
    after: str | None
    entries: tuple[LastingEntry, ...]

    @property
    def path(self) -> str:
        return PLACES[self.form]


class GuardedWord(msgspec.Struct, frozen=True):
    """A kernel argument whose addition or removal weakens the machine's protection, and the price.

    `word` is the argument as written, after a `-` if it is removed.
    """

    name: str
    word: str
    price: str


class KeepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What `ktrial keep` would do: the changed files, the values to write now, and the skipped settings.

    `changes` are the kept settings by address, whether they can be written now or not.
    """

    live: Plan
    files: tuple[FileChange, ...]
    entries: tuple[LastingEntry, ...]
    left_out: tuple[Omission, ...] = ()
    changes: Mapping[str, Change] = {}
    rivals: tuple[Rival, ...] = ()
    sources: Mapping[str, Any] | None = None
    guarded: tuple[GuardedWord, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.files and self.live.empty
