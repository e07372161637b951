# SPDX-License-Identifier: Apache-2.0
"""kernel-install: kernel arguments in /etc/kernel/cmdline, which it puts into entries and unified kernel images."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import boot_words, loader_script, shell_quoted, word_refusal

NAME = "kernel-install"
WHAT = "A script for kernel-install: adds arguments to /etc/kernel/cmdline and rebuilds all entries."
FORMS: frozenset[Form] = frozenset({"boot", "module"})
NEXT = "run the script as root: `sh FILE add`, and `sh FILE remove` to undo"

refusal = word_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    words = " ".join(map(shell_quoted, boot_words(profile.settings)))
    file = "${KTRIAL_CMDLINE:-/etc/kernel/cmdline}"
    head = [
        f"file={file}",
        'if [ ! -e "$file" ]; then echo "no $file: write your command line to it first" >&2; exit 1; fi',
        "line=\" $(tr -s '[:space:]' ' ' < \"$file\" | sed 's/^ //; s/ $//') \"",
        f"for word in {words}; do",
    ]
    without = ['case "$line" in *" $word "*) line="${line%%" $word "*} ${line#*" $word "}" ;; esac']
    tail = ["done", "line=${line# }", 'printf \'%s\\n\' "${line% }" > "$file.new"', 'mv "$file.new" "$file"']
    tail.append("kernel-install add-all")
    add = [*head, *(f"    {one}" for one in without), '    line="$line$word "', *tail]
    remove = [*head, *(f"    {one}" for one in without), *tail]
    return loader_script(NAME, profile, add, remove)
