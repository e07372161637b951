# SPDX-License-Identifier: Apache-2.0
"""A module for phones with APatch."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.phone.module import module_files, phone_refusal

NAME = "apatch"
WHAT = "A module for APatch on a rooted phone, with a page that shows settings and log."
FORMS: frozenset[Form] = frozenset({"sysctl", "sysfs", "device", "cgroup", "debugfs", "module"})
NEXT = "choose the zip in APatch under APModule, Install, and restart the phone"
ON_PHONE = True

refusal = phone_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    return module_files(profile, installer=False, web_page=True)
