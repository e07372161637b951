#!/system/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The guard. It counts each boot before anything else happens; service.sh takes the count back when the boot is complete.
# After two boots in a row that were not completed, it disables this module.
MODDIR=${0%/*}
. "$MODDIR/functions.sh" || exit 1

mkdir -p "$STATE" || exit 1
count=0
if read_text "$STATE/boot"; then count=${TEXT%% *}; fi
case $count in 0 | 1) count=$((count + 1)) ;; *) count=disabled ;; esac
read_text /proc/sys/kernel/random/boot_id || exit 1
if [ "$count" = disabled ]; then
    : > "$MODDIR/disable"
    put "$STATE/boot" "0 $TEXT"
    begin_log
    log guard "two boots in a row were not completed: this module is now disabled; enable it again in the manager"
    publish_log
else
    put "$STATE/boot" "$count $TEXT"
fi
sync
