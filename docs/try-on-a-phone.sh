#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures a phone on the cable for about ten minutes, and packs the results into one file to be sent back.
#   sh docs/try-on-a-phone.sh [--root] [--quick] [--serial SERIAL] [OUT.tar.zst]
#   --root   applies one harmless setting for a moment, through su on the phone
#   --quick  takes about a minute, to see whether everything works
set -eu

usage='usage: sh docs/try-on-a-phone.sh [--root] [--quick] [--serial SERIAL] [OUT.tar.zst]'
root=no
quick=no
host=adb
out=
while [ $# -gt 0 ]; do
    case $1 in
        --root) root=yes ;;
        --quick) quick=yes ;;
        --serial)
            [ $# -gt 1 ] || {
                echo "$usage" >&2
                exit 2
            }
            host=adb:$2
            shift
            ;;
        -*)
            echo "$usage" >&2
            exit 2
            ;;
        *)
            [ -z "$out" ] || {
                echo "$usage" >&2
                exit 2
            }
            out=$1
            ;;
    esac
    shift
done
out=${out:-ktrial-phone.tar.zst}
text=${out%.tar.zst}.txt
for file in "$out" "$text"; do
    [ ! -e "$file" ] || {
        echo "try-on-a-phone: $file exists already; name another file" >&2
        exit 2
    }
done
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
ktrial=${KTRIAL:-$here/../ktrial}
umask 077
work=$(mktemp -d "${TMPDIR:-/tmp}/ktrial-phone.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# on_phone WORDS…: ktrial with a store of its own; as_user never asks for root.
on_phone() { $ktrial --host "$host" --store "$work/store.db" "$@"; }
as_user() { $ktrial --no-sudo --host "$host" --store "$work/store.db" "$@"; }

# step NAME COMMAND…: runs a step, and reports a failure without stopping. Keeps all output.
done_steps=
step() {
    step_name=$1
    shift
    printf '\n== %s\n' "$step_name" | tee -a "$text"
    step_status=0
    "$@" >"$work/out" 2>&1 || step_status=$?
    tee -a "$text" <"$work/out"
    if [ "$step_status" -eq 0 ]; then
        done_steps="$done_steps$step_name; "
    else
        echo "== $step_name: not on this phone (see above)" | tee -a "$text"
    fi
}

seconds() { if [ "$quick" = yes ]; then echo 1; else echo "$1"; fi; }
runs() { if [ "$quick" = yes ]; then echo 1; else echo 3; fi; }

# Findings of doctor are no failure.
doctor() { as_user doctor || [ $? -eq 1 ]; }

# apply_and_revert: one more than the value that is there.
apply_and_revert() {
    value=$(on_phone why net.core.somaxconn | sed -n 's/.*net\.core\.somaxconn = \([0-9][0-9]*\).*/\1/p' | head -n 1)
    [ -n "$value" ] || return 1
    on_phone facts phone.modules
    on_phone apply "net.core.somaxconn=$((value + 1))" --for 1m && on_phone verify && on_phone revert && on_phone status
}

# pull_the_cable: a run that the cable ends. Nothing of it may be left on the phone.
pull_the_cable() {
    [ -t 0 ] || {
        echo 'needs a terminal, to ask somebody to pull the cable'
        return 1
    }
    as_user bench -n 1 --limit 60s -- sleep 45 &
    pulled=$!
    echo 'Pull the cable now, count to ten, put it in again, and press Enter.' >/dev/tty
    read -r _ </dev/tty
    wait "$pulled" || :
    sleep 5
    # shellcheck disable=SC2086 # the option and its value
    adb ${host#adb} shell 'ls -la /data/local/tmp; ps -A -o NAME,ARGS | grep -c "[k]trial-agent" || :'
}

step 'facts' as_user facts
step 'doctor' doctor
step 'wake-ups' as_user bench agent-wakeup-timer -n "$(runs)" -p "duration_s=$(seconds 20)"
step 'computing' as_user bench agent-spin -n "$(runs)" -p "duration_s=$(seconds 20)"
step 'frames' as_user bench gfxinfo -n "$(runs)" -p package=com.android.settings \
    -p activity=com.android.settings/.Settings -p "seconds=$(seconds 10)" -p "touch=swipe 500 1500 500 500 300"
[ "$root" = no ] || step 'root' apply_and_revert
[ "$quick" = yes ] || step 'cable' pull_the_cable

[ -n "$done_steps" ] || {
    echo 'try-on-a-phone: all steps failed; see above' >&2
    exit 1
}
$ktrial --store "$work/store.db" bundle "$out"
printf '\n%s contains: %s\n' "$out" "${done_steps%; }"
echo "The output is in $text. Look at both files before you send them:"
echo "  ktrial --store look.db import $out && ktrial --store look.db runs"
