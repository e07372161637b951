# SPDX-License-Identifier: Apache-2.0
"""A POSIX shell script that applies settings, and restores what was there before."""

from __future__ import annotations

from ktrial.tuning.exports.model import Form, LastingProfile
from ktrial.tuning.exports.text import (
    comment,
    file_refusal,
    file_text,
    heading,
    shell_quoted,
)

NAME = "shell"
WHAT = "A POSIX shell script: `apply` saves the old values and sets the new ones, `revert` restores them."
FORMS: frozenset[Form] = frozenset({"sysctl", "sysfs", "device", "cgroup", "debugfs", "module"})
NEXT = "run the script as root: `sh FILE apply`, and `sh FILE revert` to undo; run `apply` after each boot"

refusal = file_refusal


def write(profile: LastingProfile) -> dict[str, str]:
    calls: list[str] = []
    for setting in profile.settings:
        call = f"    set_value {shell_quoted(setting.text)} {shell_quoted(setting.path)}"
        calls += [*comment(setting, indent="    "), call]
    text = _TEMPLATE.replace("@NAME@", profile.name).replace("@HEADING@", "\n".join(heading(profile)).rstrip())
    return {f"ktrial-{profile.name}.sh": file_text([text.replace("@CALLS@", "\n".join(calls))])}


#: Saved values are in /run, which belongs to root and is empty after a boot.
_TEMPLATE = r"""#!/bin/sh
@HEADING@

saved=${KTRIAL_SAVED:-/run/ktrial-@NAME@}
failed=0

# Keep what a file holds now, unless that is kept already; of the scheduler's features only the one that is set.
save() {
    kept=$saved$1
    case "$1" in */sched/features | */sched_features) kept=$saved$1/@${2#NO_} ;; esac
    if [ ! -e "$kept" ]; then
        mkdir -p "${kept%/*}"
        case "$kept" in
        */@*) tr ' ' '\n' < "$1" | grep -x -e "${2#NO_}" -e "NO_${2#NO_}" > "$kept" ;;
        *) sed -e 's/.*\[\(.*\)\].*/\1/' -e 's/.*(\(.*\)).*/\1/' "$1" > "$kept" ;;
        esac
    fi
}

# Write a value into each file that a pattern stands for.
set_value() {
    for file in $2; do
        if [ -e "$file" ]; then
            save "$file" "$1"
            printf '%s\n' "$1" > "$file" || failed=1
        else
            case "$2" in *[*?[]*) ;; *) echo "no such file: $file" >&2; failed=1 ;; esac
        fi
    done
}

apply() {
    umask 077
    mkdir -p "$saved"
@CALLS@
}

revert() {
    if [ ! -d "$saved" ]; then echo "nothing to revert" >&2; exit 1; fi
    find "$saved" -type f | while read -r kept; do
        file=${kept#"$saved"}
        cat "$kept" > "${file%/@*}" && rm -f "$kept"
    done
    if [ -n "$(find "$saved" -type f)" ]; then failed=1; else rm -rf "$saved"; fi
}

case "${1-}" in
apply) apply ;;
revert) revert ;;
*) echo "usage: sh $0 apply|revert" >&2; exit 2 ;;
esac
exit "$failed"
"""
