# SPDX-License-Identifier: Apache-2.0
"""A module for phones with KernelSU."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.phone.module import module_files, phone_refusal

NAME = "kernelsu"
WHAT = "A module for KernelSU on a rooted phone, with a page that shows settings and log."
FORMS: frozenset[Form] = frozenset({"sysctl", "sysfs", "device", "cgroup", "debugfs", "module"})
NEXT = "choose the zip in KernelSU under Module, Install, and restart the phone"
ON_PHONE = True

refusal = phone_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    return module_files(profile, installer=False, web_page=True)
