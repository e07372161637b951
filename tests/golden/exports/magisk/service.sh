#!/system/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Applies the settings of settings.sh some time after the boot, because Android's init writes some of these files, too.
MODDIR=${0%/*}
if grep -q -e "$(printf '\r')" "$MODDIR/settings.sh" "$MODDIR/functions.sh"; then
    printf 'note\ta script of this module has Windows line ends: nothing was applied; install the module again\n' \
        >> "/data/adb/ktrial/${MODDIR##*/}/log"
    exit 1
fi
. "$MODDIR/functions.sh" || exit 1
[ ! -e "$MODDIR/disable" ] || exit 0

until [ "$(getprop sys.boot_completed)" = 1 ]; do sleep 1; done
DELAY=90
bad_delay=
if read_text "$STATE/delay"; then
    case $TEXT in
    '' | *[!0-9]* | ??????*) bad_delay="$STATE/delay: expected whole seconds, got '$TEXT': waited $DELAY" ;;
    *) DELAY=$TEXT ;;
    esac
fi
sleep "$DELAY"

begin_log
[ -z "$bad_delay" ] || log note "$bad_delay"
read_text /proc/sys/kernel/random/boot_id
boot_id=$TEXT
if ! read_text "$STATE/boot" || [ "${TEXT#* }" != "$boot_id" ]; then
    log note "the guard did not run in this boot: nothing was applied"
    publish_log
    exit 1
fi
log_conflicts
unkept=
# shellcheck disable=SC2317  # settings calls it
setting() { keep_setting "$@"; }
# What the kernel changes by itself is kept if it can be read: nobody writes to it.
# shellcheck disable=SC2317
also() {
    before=$unkept
    keep_setting "$@"
    unkept=$before
}
settings
sync
[ -z "$unkept" ] || log note "cannot keep the value of:$unkept"
setting() { apply_setting "$@"; }
also() { :; }
settings
remember_left
publish_log

# The boot counts as complete only if the phone is still up a minute after the writes.
sleep 60
log_overwritten
log end "$(date '+%Y-%m-%d %H:%M:%S')"
publish_log
put "$STATE/boot" "0 $boot_id"
sync
