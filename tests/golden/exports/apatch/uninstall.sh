#!/system/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Restores what the files held before the first write. The manager runs it; to do it at once: su -c 'sh THIS-FILE'
MODDIR=${0%/*}
. "$MODDIR/functions.sh" || exit 1

[ -d "$STATE" ] || exit 0
if restore_all; then
    rm -rf "$STATE"
    rmdir /data/adb/ktrial 2> /dev/null || :
else
    echo "a reboot clears what could not be restored; the values from before are in $STATE/originals"
    exit 1
fi
