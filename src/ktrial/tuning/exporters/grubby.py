# SPDX-License-Identifier: Apache-2.0
"""grubby: kernel arguments in the Boot Loader Specification's entries of Fedora and its relatives."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import boot_words, loader_script, shell_quoted, word_refusal

NAME = "grubby"
WHAT = "A script for grubby: kernel arguments in all BLS entries (Fedora, RHEL)."
FORMS: frozenset[Form] = frozenset({"boot", "module"})
NEXT = "run the script as root: `sh FILE add`, and `sh FILE remove` to undo"

refusal = word_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    words = shell_quoted(" ".join(boot_words(profile.settings)))
    add, remove = (f"grubby --update-kernel=ALL --{option}={words}" for option in ("args", "remove-args"))
    return loader_script(NAME, profile, [add], [remove])
