#!/bin/sh
# Written by ktrial export: sample.

# zswap:max_pool_percent = 20
#   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
# module:nvme_core.io_timeout = 30
#   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
# power:iwlwifi_power_save = 0
#   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
# boot:preempt = full
#   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
# boot:nowatchdog = 1
#   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
# boot:nosmt = on
#   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
# boot:psi = 1
#   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
# boot:isolcpus = domain,2-5
#   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]

set -eu
case "${1-}" in
add)
    file=${KTRIAL_CMDLINE:-/etc/kernel/cmdline}
    if [ ! -e "$file" ]; then echo "no $file: write your command line to it first" >&2; exit 1; fi
    line=" $(tr -s '[:space:]' ' ' < "$file" | sed 's/^ //; s/ $//') "
    for word in 'zswap.max_pool_percent=20' 'nvme_core.io_timeout=30' 'iwlwifi.power_save=0' 'preempt=full' 'nowatchdog' 'nosmt' 'psi=1' 'isolcpus=domain,2-5'; do
        case "$line" in *" $word "*) line="${line%%" $word "*} ${line#*" $word "}" ;; esac
        line="$line$word "
    done
    line=${line# }
    printf '%s\n' "${line% }" > "$file.new"
    mv "$file.new" "$file"
    kernel-install add-all
    ;;
remove)
    file=${KTRIAL_CMDLINE:-/etc/kernel/cmdline}
    if [ ! -e "$file" ]; then echo "no $file: write your command line to it first" >&2; exit 1; fi
    line=" $(tr -s '[:space:]' ' ' < "$file" | sed 's/^ //; s/ $//') "
    for word in 'zswap.max_pool_percent=20' 'nvme_core.io_timeout=30' 'iwlwifi.power_save=0' 'preempt=full' 'nowatchdog' 'nosmt' 'psi=1' 'isolcpus=domain,2-5'; do
        case "$line" in *" $word "*) line="${line%%" $word "*} ${line#*" $word "}" ;; esac
    done
    line=${line# }
    printf '%s\n' "${line% }" > "$file.new"
    mv "$file.new" "$file"
    kernel-install add-all
    ;;
*)
    echo 'usage: sh ktrial-sample-kernel-install.sh add|remove' >&2
    exit 2
    ;;
esac
