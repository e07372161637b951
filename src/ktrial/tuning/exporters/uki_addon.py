# SPDX-License-Identifier: Apache-2.0
"""Unified kernel images: an add-on with kernel arguments, built and signed by ukify."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import boot_words, comment, file_text, heading, word_refusal

NAME = "uki-addon"
WHAT = "A configuration for ukify: an add-on with kernel arguments for unified kernel images."
FORMS: frozenset[Form] = frozenset({"boot", "module"})
NEXT = (
    "run `ukify build --config=FILE --output=NAME.addon.efi`, with keys if Secure Boot is on,"
    " and copy the add-on to the folder UKI.efi.extra.d"
)

refusal = word_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    reasons = [line for setting in profile.settings for line in comment(setting)]
    words = " ".join(boot_words(profile.settings))
    told = "Under Secure Boot a unified kernel image ignores other arguments than its own and those of signed add-ons."
    lines = [*heading(profile, told), *reasons, "[UKI]", f"Cmdline={words}"]
    return {f"ktrial-{profile.name}.addon.conf": file_text(lines)}
