# SPDX-License-Identifier: Apache-2.0
"""limine: a drop-in of limine-entry-tool that appends kernel arguments."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import boot_words, comment, file_text, heading, word_refusal

NAME = "limine"
WHAT = "A drop-in for /etc/limine-entry-tool.d: kernel arguments (limine on Arch and CachyOS)."
FORMS: frozenset[Form] = frozenset({"boot", "module"})
NEXT = "copy the file to /etc/limine-entry-tool.d and run `limine-mkinitcpio` or `limine-update`"

refusal = word_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    reasons = [line for setting in profile.settings for line in comment(setting)]
    words = " ".join(boot_words(profile.settings))
    lines = [*heading(profile, "/etc/default/limine overrides this file."), *reasons]
    lines.append(f'KERNEL_CMDLINE[default]+=" {words}"')
    return {f"etc/limine-entry-tool.d/90-ktrial-{profile.name}.conf": file_text(lines)}
