# SPDX-License-Identifier: Apache-2.0
"""A module for phones with Magisk."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.phone.module import module_files, phone_refusal

NAME = "magisk"
WHAT = (
    "A module for Magisk on a rooted phone: applies settings after each boot, with a guard, a log and an uninstaller."
)
FORMS: frozenset[Form] = frozenset({"sysctl", "sysfs", "device", "cgroup", "debugfs", "module"})
NEXT = "choose the zip in Magisk under Modules, Install from storage, and restart the phone"
ON_PHONE = True

refusal = phone_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    return module_files(profile, installer=True, web_page=False)
