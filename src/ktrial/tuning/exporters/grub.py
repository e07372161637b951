# SPDX-License-Identifier: Apache-2.0
"""GRUB: a drop-in of /etc/default/grub.d that appends kernel arguments."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import boot_words, comment, file_text, heading, word_refusal

NAME = "grub"
WHAT = "A drop-in for /etc/default/grub.d: kernel arguments, if grub-mkconfig reads that folder (Debian, Ubuntu)."
FORMS: frozenset[Form] = frozenset({"boot", "module"})
NEXT = "copy the file to /etc/default/grub.d and run `update-grub`"

refusal = word_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    reasons = [line for setting in profile.settings for line in comment(setting)]
    words = " ".join(boot_words(profile.settings))
    lines = [*heading(profile), *reasons, f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {words}"']
    return {f"etc/default/grub.d/90-ktrial-{profile.name}.cfg": file_text(lines)}
