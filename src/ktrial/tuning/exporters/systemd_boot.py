# SPDX-License-Identifier: Apache-2.0
"""systemd-boot: a line of options in each entry of /loader/entries."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import boot_words, loader_script, shell_quoted, word_refusal

NAME = "systemd-boot"
WHAT = "A script for systemd-boot: kernel arguments in all entries of the EFI or boot partition."
FORMS: frozenset[Form] = frozenset({"boot", "module"})
NEXT = "run the script as root: `sh FILE add`, and `sh FILE remove` to undo; with kernel-install, choose that target"

refusal = word_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    line = shell_quoted(f"options {' '.join(boot_words(profile.settings))}")
    entries = [f"line={line}", 'for entry in "$(bootctl -x)"/loader/entries/*.conf; do']
    add = [*entries, '    grep -qxF -e "$line" "$entry" || printf \'%s\\n\' "$line" >> "$entry"', "done"]
    remove = [
        *entries,
        '    grep -qxF -e "$line" "$entry" || continue',
        '    grep -vxF -e "$line" "$entry" > "$entry.new" && mv "$entry.new" "$entry"',
        "done",
    ]
    told = "An entry may have several lines of options; kernels that are installed later need `add` again."
    return loader_script(NAME, profile, add, remove, told)
