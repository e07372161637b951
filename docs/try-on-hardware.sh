#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures for about ten minutes what no test machine of ktrial has, and packs it into one file to be sent back.
#   sh docs/try-on-hardware.sh [--root] [--quick] [OUT.tar.zst]
#   --root   reads the energy counters and traces the disks through sudo; nothing is changed
#   --quick  takes about a minute, to see whether everything works
set -eu

usage='usage: sh docs/try-on-hardware.sh [--root] [--quick] [OUT.tar.zst]'
root=no
quick=no
out=
for argument in "$@"; do
    case $argument in
        --root) root=yes ;;
        --quick) quick=yes ;;
        -*)
            echo "$usage" >&2
            exit 2
            ;;
        *)
            [ -z "$out" ] || {
                echo "$usage" >&2
                exit 2
            }
            out=$argument
            ;;
    esac
done
[ "$(id -u)" -ne 0 ] || {
    echo 'try-on-hardware: run it as yourself; --root asks for root where that is needed' >&2
    exit 5
}
out=${out:-ktrial-hardware.tar.zst}
[ ! -e "$out" ] || {
    echo "try-on-hardware: $out exists already; name another file" >&2
    exit 2
}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
ktrial=$here/../ktrial
[ -x "$ktrial" ] || ktrial=ktrial
umask 077
work=$(mktemp -d "${XDG_CACHE_HOME:-$HOME}/ktrial-hardware.XXXXXX")
waker=
trap '[ -z "$waker" ] || kill "$waker" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# as_user WORDS…, as_root WORDS…: ktrial with a store of its own.
as_user() { "$ktrial" --no-sudo --store "$work/store.db" "$@"; }
as_root() {
    if [ "$root" = yes ]; then
        sudo "$ktrial" --store "$work/store.db" "$@"
    else
        as_user "$@"
    fi
}

# step NAME COMMAND…: runs a step, and reports a failure without stopping.
done_steps=
step() {
    step_name=$1
    shift
    printf '\n== %s\n' "$step_name"
    if "$@"; then
        done_steps="$done_steps$step_name; "
    else
        echo "== $step_name: not on this machine (see above)"
    fi
}

# seconds LONG: so long, or 2 for --quick.
seconds() { if [ "$quick" = yes ]; then echo 2; else echo "$1"; fi; }
label='--label hardware'

# tells VERB: what ktrial finds here, kept as the output of a run. Findings of doctor are no failure.
tells() {
    # shellcheck disable=SC2016 # of the shell that is started
    as_user bench -n 1 --label hardware -- sh -c '"$@" || [ $? -eq 1 ]' sh "$ktrial" --no-sudo "$1" --json
}

# reads_after_idle: wakes the disk up now and then, since nothing else that is measured reads from it.
reads_after_idle() {
    longest=2.5
    [ "$quick" = no ] || longest=0.5
    head -c 4194304 /dev/urandom >"$work/data" && sync
    while dd if="$work/data" of=/dev/null bs=4096 count=1 iflag=direct; do
        for pause in 0.3 0.3 "$longest"; do
            sleep "$pause"
            dd if="$work/data" of=/dev/null bs=4096 count=1 iflag=direct
        done
    done
}

# watch_the_disks LONG: what the kernel traces meanwhile.
watch_the_disks() {
    reads_after_idle >/dev/null 2>&1 &
    waker=$!
    watched=0
    as_root bench watch -n 1 --label hardware -p frame_loop=calm -p "duration_s=$1" || watched=$?
    kill "$waker" 2>/dev/null || :
    waker=
    return "$watched"
}

# Around every run stand the clocks, temperatures and power that the machine tells: cpufreq, NVML, the battery.
# shellcheck disable=SC2086 # the option and its value
{
    step 'facts' tells facts
    step 'doctor' tells doctor
    step 'wake-ups' as_user bench agent-wakeup-timer -n 3 $label -p "duration_s=$(seconds 20)"
    step 'computing' as_user bench agent-spin -n 3 $label -p "duration_s=$(seconds 20)"
    step 'reads of the disk' as_user bench agent-fileio-read-random-cold -n 3 $label -p "duration_s=$(seconds 10)" \
        -p "directory=$work"
    step 'energy at rest' as_root bench idle-package -n 2 $label -p "duration_s=$(seconds 45)"
    step 'battery at rest' as_user bench idle-battery -n 1 $label -p "duration_s=$(seconds 120)"
    step 'disks after idle' watch_the_disks "$(seconds 120)"
}

[ -n "$done_steps" ] || {
    echo 'try-on-hardware: all steps failed; see above' >&2
    exit 1
}
as_user bundle "$out"
printf '\n%s contains: %s\n' "$out" "${done_steps%; }"
echo 'Names of hosts and users, serial numbers and addresses are replaced in it. Look at it before you send it:'
echo "  ktrial --store look.db import $out && ktrial --store look.db runs"
