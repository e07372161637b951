# SPDX-License-Identifier: Apache-2.0
"""bootc: kernel arguments of this machine that belong to a named source."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import boot_words, loader_script, shell_quoted, word_refusal

NAME = "bootc-loader-entries"
WHAT = "A script for bootc: kernel arguments of one machine, under a source of their own."
FORMS: frozenset[Form] = frozenset({"boot", "module"})
NEXT = "run the script as root: `sh FILE add`, and `sh FILE remove` to undo; either takes effect at the next boot"

refusal = word_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    words = shell_quoted(" ".join(boot_words(profile.settings)))
    command = f"bootc loader-entries set-options-for-source --source ktrial-{profile.name}"
    return loader_script(NAME, profile, [f"{command} --options {words}"], [command])
