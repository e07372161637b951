# SPDX-License-Identifier: Apache-2.0
"""bootc: a file of kargs.d in an image."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import boot_words, comment, file_text, heading, word_refusal

NAME = "bootc-kargs"
WHAT = "A file for /usr/lib/bootc/kargs.d of a bootc image."
FORMS: frozenset[Form] = frozenset({"boot", "module"})
NEXT = "copy the file into the image during its build; `bootc upgrade` brings it to machines"

refusal = word_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    reasons = [line for setting in profile.settings for line in comment(setting)]
    words = ", ".join(f'"{word}"' for word in boot_words(profile.settings))
    lines = [*heading(profile), *reasons, f"kargs = [{words}]"]
    return {f"usr/lib/bootc/kargs.d/90-ktrial-{profile.name}.toml": file_text(lines)}
