# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree: kernel arguments in a new deployment."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import boot_words, loader_script, shell_quoted, word_refusal

NAME = "rpm-ostree"
WHAT = "A script for rpm-ostree: kernel arguments in a new deployment (Fedora Atomic)."
FORMS: frozenset[Form] = frozenset({"boot", "module"})
NEXT = "run the script as root: `sh FILE add`, and `sh FILE remove` to undo; either takes effect at the next boot"

refusal = word_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    words = boot_words(profile.settings)
    add, remove = (
        " ".join(["rpm-ostree kargs", *(shell_quoted(f"--{option}={word}") for word in words)])
        for option in ("append-if-missing", "delete-if-present")
    )
    return loader_script(NAME, profile, [add], [remove])
