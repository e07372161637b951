#!/sbin/sh
# SPDX-License-Identifier: Apache-2.0
# Magisk and recoveries call this with an API version, a file descriptor for messages, and the path of the zip.
# The functions of the installed Magisk do the work.
umask 022
OUTFD=$2
ZIPFILE=$3
export OUTFD ZIPFILE
mount /data 2> /dev/null
if [ ! -f /data/adb/magisk/util_functions.sh ]; then
    echo "! Install Magisk 20.4 or newer first"
    exit 1
fi
. /data/adb/magisk/util_functions.sh
if [ "$MAGISK_VER_CODE" -lt 20400 ]; then
    echo "! Install Magisk 20.4 or newer first"
    exit 1
fi
install_module
exit 0
