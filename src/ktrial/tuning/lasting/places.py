# SPDX-License-Identifier: Apache-2.0
"""Choose the configuration file that makes a setting last, by the path that the setting writes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from ktrial.tuning.exports.model import Omission
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.lasting.boot_unit import place_in_unit
from ktrial.tuning.lasting.loaders import NoLoader
from ktrial.tuning.lasting.model import Form, LastingEntry
from ktrial.tuning.plans.model import Change, Refusal, Why, ZramStep

_MIB = 2**20
#: Values that the agent accepts: nothing that a reader of these files could take for a quote, an escape or a comment.
_VALUE = re.compile(r"[A-Za-z0-9_.,:/+=-](?:[A-Za-z0-9 _.,:/+=-]*[A-Za-z0-9_.,:/+=-])?")
_PARAMETER_VALUE = re.compile(r"[A-Za-z0-9_.,:/+-]+")
PARAMETER = re.compile(r"/sys/module/([^/]+)/parameters/([^/]+)")
_DEVICE = re.compile(r"/sys/(?:(block)|class/([^/]+)|bus/([^/]+)/devices)/([^/]+)/(.+)")
_PATH = re.compile(r"[A-Za-z0-9_.:+/-]+")
#: udev renames interfaces after they appear, which is a separate event.
_ACTIONS = {"net": "add|change|move"}
#: Places without a file that makes them last: the reason, and what to use instead.
_WITHOUT = (
    ("/proc/irq/", "interrupts may have other numbers after each boot", "let irqbalance or the driver place them"),
    ("/dev/", "control groups of Android are set up by its own scripts", None),
)


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """What decides which configuration file can hold a setting on this machine."""

    modules: Collection[str] = ()
    has_zram_generator: bool = False
    #: Why kernel arguments cannot be kept; None if they can.
    no_loader: NoLoader | None = None
    allow_dangerous: bool = False


def place_change(change: Change, grounds: Grounds) -> LastingEntry | Omission:
    """Return the entry that makes a setting last, its reason still empty, or an Omission that says why no entry can."""
    path, value = change.path, change.new_text
    for start, reason, hint in _WITHOUT:
        if path.startswith(start):
            return Omission(change.address, reason, value, hint)
    if not _PATH.fullmatch(path):
        return Omission(change.address, f"no configuration file can name {path!r}", value)
    in_unit = place_in_unit(change)
    if isinstance(in_unit, Omission):
        return in_unit
    form, holds = (in_unit.form, in_unit.holds) if in_unit is not None else _place(path, value, grounds)
    fits = _PARAMETER_VALUE if form == "modprobe.d" else _VALUE
    if not fits.fullmatch(value) or value == "-":
        return Omission(change.address, f"a file of {form} cannot hold the value {value!r}", value)
    return LastingEntry(form=form, holds=holds, values={change.address: value})


def _place(path: str, value: str, grounds: Grounds) -> tuple[Form, Mapping[str, Any]]:
    if path.startswith("/proc/sys/"):
        return "sysctl.d", {"path": path, "value": value}
    parameter = PARAMETER.fullmatch(path)
    # Nothing reads the options of a built-in module; its parameters can only be written like other files.
    if parameter is not None and parameter[1] in grounds.modules:
        return "modprobe.d", {"module": parameter[1], "parameter": parameter[2], "value": value}
    device = _DEVICE.fullmatch(path)
    if device is not None:
        subsystem = next(group for group in device.groups()[:3] if group)
        action = _ACTIONS.get(subsystem, "add|change")
        match = {"ACTION": action, "SUBSYSTEM": subsystem, "KERNEL": device[4]}
        return "udev", {"match": match, "set": [{"attribute": device[5], "value": value}]}
    return "tmpfiles.d", {"path": path, "value": value}


def place_zram(step: ZramStep, grounds: Grounds) -> LastingEntry | Omission:
    """Return the entry of zram-generator for a device, or why there is none."""
    device = step.device or "zram0"
    address = f"zram:disksize@{device}"
    if not grounds.has_zram_generator:
        reason = "zram-generator is not installed"
        return Omission(address, reason, str(step.size_bytes), "install systemd-zram-generator")
    size_mib = -(-step.size_bytes // _MIB)
    holds: dict[str, Any] = {"device": device, "zram-size": str(size_mib)}
    values = {address: str(size_mib * _MIB)}
    if step.algorithm is not None:
        holds["compression-algorithm"] = step.algorithm
        values[f"zram:comp_algorithm@{device}"] = step.algorithm
    holds["swap-priority"] = step.priority
    return LastingEntry(form="zram-generator", holds=holds, values=values)


def change_at_load(refusal: Refusal, knobs: Mapping[str, Knob], grounds: Grounds) -> Change | None:
    """Return the change that sets a read-only parameter the next time its module is loaded; None for other settings."""
    knob = knobs.get(refusal.knob)
    if refusal.kind is not Why.READ_ONLY or knob is None or knob.kind != "module":
        return None
    parameter = PARAMETER.fullmatch(knob.files[0])
    if parameter is None or parameter[1] not in grounds.modules:
        return None
    return Change.later(knob.id, refusal.address, knob.files[0], refusal.value, origin=refusal.origin, risk=knob.risk)


def left_out_of(refusal: Refusal) -> Omission:
    """Return an Omission for a setting that the plan skips."""
    return Omission(refusal.address, refusal.reason, refusal.value, refusal.hint)
