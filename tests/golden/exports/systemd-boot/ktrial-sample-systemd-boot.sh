#!/bin/sh
# Written by ktrial export: sample.
# An entry may have several lines of options; kernels that are installed later need `add` again.

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
    line='options zswap.max_pool_percent=20 nvme_core.io_timeout=30 iwlwifi.power_save=0 preempt=full nowatchdog nosmt psi=1 isolcpus=domain,2-5'
    for entry in "$(bootctl -x)"/loader/entries/*.conf; do
        grep -qxF -e "$line" "$entry" || printf '%s\n' "$line" >> "$entry"
    done
    ;;
remove)
    line='options zswap.max_pool_percent=20 nvme_core.io_timeout=30 iwlwifi.power_save=0 preempt=full nowatchdog nosmt psi=1 isolcpus=domain,2-5'
    for entry in "$(bootctl -x)"/loader/entries/*.conf; do
        grep -qxF -e "$line" "$entry" || continue
        grep -vxF -e "$line" "$entry" > "$entry.new" && mv "$entry.new" "$entry"
    done
    ;;
*)
    echo 'usage: sh ktrial-sample-systemd-boot.sh add|remove' >&2
    exit 2
    ;;
esac
