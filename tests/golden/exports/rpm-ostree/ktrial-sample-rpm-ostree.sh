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
    rpm-ostree kargs '--append-if-missing=zswap.max_pool_percent=20' '--append-if-missing=nvme_core.io_timeout=30' '--append-if-missing=iwlwifi.power_save=0' '--append-if-missing=preempt=full' '--append-if-missing=nowatchdog' '--append-if-missing=nosmt' '--append-if-missing=psi=1' '--append-if-missing=isolcpus=domain,2-5'
    ;;
remove)
    rpm-ostree kargs '--delete-if-present=zswap.max_pool_percent=20' '--delete-if-present=nvme_core.io_timeout=30' '--delete-if-present=iwlwifi.power_save=0' '--delete-if-present=preempt=full' '--delete-if-present=nowatchdog' '--delete-if-present=nosmt' '--delete-if-present=psi=1' '--delete-if-present=isolcpus=domain,2-5'
    ;;
*)
    echo 'usage: sh ktrial-sample-rpm-ostree.sh add|remove' >&2
    exit 2
    ;;
esac
