#!/system/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Collects what a module of ktrial did on this phone, and gets the old values back. Run it as root on the phone:
#   sh try-a-module.sh ktrial-ktweak
# It writes /sdcard/ktrial-phone.tar.

module=/data/adb/modules/${1:-ktrial-ktweak}
state=/data/adb/ktrial/${module##*/}
out=/sdcard/ktrial-phone
tab=$(printf '\t')

if [ ! -e "$state/log" ] || [ ! -e "$module/uninstall.sh" ]; then
    echo "no log of ${module##*/}: install the module, restart the phone, and wait three minutes" >&2
    exit 1
fi
rm -rf "$out"
mkdir -p "$out" || exit 1
cp -r "$state" "$out/state" || exit 1
{
    uname -a
    for name in ro.product.manufacturer ro.product.model ro.board.platform ro.soc.model ro.build.version.release; do
        echo "$name=$(getprop "$name")"
    done
    sed -n -e 's/^version=/module /p' "$module/module.prop"
} > "$out/phone"

sh "$module/uninstall.sh" > "$out/uninstall" 2>&1
echo "exit status $?" >> "$out/uninstall"
while IFS=$tab read -r file _ _ feature; do
    [ -e "$file" ] || continue
    copy=$out/after$file
    mkdir -p "${copy%/*}"
    cat "$file" > "$copy" 2> /dev/null
    [ -z "$feature" ] || continue # one word of a longer file: compare it by hand
    if ! cmp -s "$copy" "$out/state/originals$file"; then
        echo "differs: $file"
    fi
done < "$out/state/order" > "$out/differs"
cat "$out/uninstall" "$out/differs"
[ -s "$out/differs" ] || echo "restored: every value"
(cd "${out%/*}" && tar -cf ktrial-phone.tar "${out##*/}") && rm -rf "$out" && echo "wrote $out.tar"
