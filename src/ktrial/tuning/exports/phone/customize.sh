# SPDX-License-Identifier: Apache-2.0
# Sourced by the installer of Magisk, KernelSU or APatch, after it has unpacked the zip to MODPATH.
# shellcheck shell=sh disable=SC2154

if grep -q -e "$(printf '\r')" "$MODPATH"/*.sh "$MODPATH/module.prop"; then
    abort "! A script has Windows line ends. Save the files with Unix line ends (LF), or export the module again."
fi
. "$MODPATH/settings.sh"
ktrial_old=/data/adb/modules/$ID/module.prop
if [ -e "$ktrial_old" ] && ! grep -q -x -F -e 'author=ktrial' "$ktrial_old"; then
    abort "! A module with the id $ID is installed, and it is not from ktrial ($(sed -n 's/^author=//p' "$ktrial_old")). Remove it, or export this one with another --name."
fi
ktrial_state=/data/adb/ktrial/$ID
mkdir -p "$ktrial_state" || abort "! Cannot create $ktrial_state"
rm -f "$ktrial_state/boot"
[ -e "$ktrial_state/delay" ] || printf '90\n' > "$ktrial_state/delay"
if [ -e "$ktrial_state/order" ]; then ui_print "- Keeping the values from before the first version"; fi
ui_print "- Settings are applied $(cat "$ktrial_state/delay") s after each boot"
ui_print "- The log will be in $ktrial_state/log"
