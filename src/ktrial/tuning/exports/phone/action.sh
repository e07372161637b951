#!/system/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Shows the log of the last boot: the manager's "action" button.
MODDIR=${0%/*}
. "$MODDIR/functions.sh" || exit 1
if [ -e "$LOG" ]; then cat "$LOG"; else echo "no log yet: restart the phone and wait until $LOG exists"; fi
