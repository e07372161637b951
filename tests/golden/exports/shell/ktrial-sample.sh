#!/bin/sh
# Written by ktrial export: sample.

saved=${KTRIAL_SAVED:-/run/ktrial-sample}
failed=0

# Keep what a file holds now, unless that is kept already; of the scheduler's features only the one that is set.
save() {
    kept=$saved$1
    case "$1" in */sched/features | */sched_features) kept=$saved$1/@${2#NO_} ;; esac
    if [ ! -e "$kept" ]; then
        mkdir -p "${kept%/*}"
        case "$kept" in
        */@*) tr ' ' '\n' < "$1" | grep -x -e "${2#NO_}" -e "NO_${2#NO_}" > "$kept" ;;
        *) sed -e 's/.*\[\(.*\)\].*/\1/' -e 's/.*(\(.*\)).*/\1/' "$1" > "$kept" ;;
        esac
    fi
}

# Write a value into each file that a pattern stands for.
set_value() {
    for file in $2; do
        if [ -e "$file" ]; then
            save "$file" "$1"
            printf '%s\n' "$1" > "$file" || failed=1
        else
            case "$2" in *[*?[]*) ;; *) echo "no such file: $file" >&2; failed=1 ;; esac
        fi
    done
}

apply() {
    umask 077
    mkdir -p "$saved"
    # vm.swappiness = 10
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '10' '/proc/sys/vm/swappiness'
    # net.ipv4.tcp_rmem = 4096 131072 6291456
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '4096 131072 6291456' '/proc/sys/net/ipv4/tcp_rmem'
    # thp:enabled = madvise
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value 'madvise' '/sys/kernel/mm/transparent_hugepage/enabled'
    # irq:smp_affinity@irq7 = 3
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '3' '/proc/irq/7/smp_affinity'
    # queue:scheduler@nvme* = none
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value 'none' '/sys/block/nvme*/queue/scheduler'
    # queue:wbt_lat_usec@sda = 0
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '0' '/sys/block/sda/queue/wbt_lat_usec'
    # nvme:pm_qos_latency_tolerance_us@* = 0
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '0' '/sys/class/nvme/nvme*/power/pm_qos_latency_tolerance_us'
    # net:tx_queue_len@eth0 = 1000
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '1000' '/sys/class/net/eth0/tx_queue_len'
    # net:rps_cpus@eth0/rx-0 = f
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value 'f' '/sys/class/net/eth0/queues/rx-0/rps_cpus'
    # net:rps_flow_cnt@*/rx-* = 4096
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '4096' '/sys/class/net/*/queues/rx-*/rps_flow_cnt'
    # power:runtime_pm@0000:00:1f.2 = auto
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value 'auto' '/sys/bus/pci/devices/0000:00:1f.2/power/control'
    # power:usb_control@1-1 = on
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value 'on' '/sys/bus/usb/devices/1-1/power/control'
    # power:sata_link_power@* = max_performance
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value 'max_performance' '/sys/class/scsi_host/host*/link_power_management_policy'
    # cpu:energy_perf_bias@cpu3 = 0
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '0' '/sys/devices/system/cpu/cpu3/power/energy_perf_bias'
    # cpufreq:scaling_governor@* = performance
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value 'performance' '/sys/devices/system/cpu/cpufreq/policy*/scaling_governor'
    # cpuidle:state_disable@cpu0/state2 = 1
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '1' '/sys/devices/system/cpu/cpu0/cpuidle/state2/disable'
    # cgroup:cpu.weight@user.slice/user-1000.slice = 200
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '200' '/sys/fs/cgroup/user.slice/user-1000.slice/cpu.weight'
    # feature:NEXT_BUDDY = NEXT_BUDDY
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value 'NEXT_BUDDY' '/sys/kernel/debug/sched/features'
    # sched:base_slice_ns = 3000000
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '3000000' '/sys/kernel/debug/sched/base_slice_ns'
    # zswap:max_pool_percent = 20
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    set_value '20' '/sys/module/zswap/parameters/max_pool_percent'
}

revert() {
    if [ ! -d "$saved" ]; then echo "nothing to revert" >&2; exit 1; fi
    find "$saved" -type f | while read -r kept; do
        file=${kept#"$saved"}
        cat "$kept" > "${file%/@*}" && rm -f "$kept"
    done
    if [ -n "$(find "$saved" -type f)" ]; then failed=1; else rm -rf "$saved"; fi
}

case "${1-}" in
apply) apply ;;
revert) revert ;;
*) echo "usage: sh $0 apply|revert" >&2; exit 2 ;;
esac
exit "$failed"
