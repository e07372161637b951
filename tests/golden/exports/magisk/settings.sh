# Written by ktrial export: sample.

ID='ktrial-sample'
VERSION='0.1.0-07018c54'
NAMES='vm/swappiness
vm.swappiness
tcp_rmem
transparent_hugepage/enabled
smp_affinity
queue/scheduler
wbt_lat_usec
pm_qos_latency_tolerance_us
tx_queue_len
rps_cpus
rps_flow_cnt
power/control
link_power_management_policy
energy_perf_bias
scaling_governor
sched/features
sched_features
base_slice_ns
max_pool_percent'
settings() {
    # vm.swappiness = 10
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'vm.swappiness' 'same' 'value' '10' '' '/proc/sys/vm/swappiness'
    # net.ipv4.tcp_rmem = 4096 131072 6291456
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'net.ipv4.tcp_rmem' 'same' 'value' '4096 131072 6291456' '' '/proc/sys/net/ipv4/tcp_rmem'
    # thp:enabled = madvise
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'thp:enabled' 'choice' 'value' 'madvise' '' '/sys/kernel/mm/transparent_hugepage/enabled'
    # irq:smp_affinity@irq7 = 3
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'irq:smp_affinity' 'mask' 'value' '3' '' '/proc/irq/7/smp_affinity'
    # queue:scheduler@nvme* = none
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'queue:scheduler' 'choice' 'value' 'none' '' '/sys/block/nvme*/queue/scheduler'
    # queue:wbt_lat_usec@sda = 0
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'queue:wbt_lat_usec' 'same' 'value' '0' '' '/sys/block/sda/queue/wbt_lat_usec'
    # nvme:pm_qos_latency_tolerance_us@* = 0
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'nvme:pm_qos_latency_tolerance_us' 'same' 'value' '0' '' '/sys/class/nvme/nvme*/power/pm_qos_latency_tolerance_us'
    # net:tx_queue_len@eth0 = 1000
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'net:tx_queue_len' 'same' 'value' '1000' '' '/sys/class/net/eth0/tx_queue_len'
    # net:rps_cpus@eth0/rx-0 = f
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'net:rps_cpus' 'mask' 'value' 'f' '' '/sys/class/net/eth0/queues/rx-0/rps_cpus'
    # net:rps_flow_cnt@*/rx-* = 4096
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'net:rps_flow_cnt' 'same' 'value' '4096' '' '/sys/class/net/*/queues/rx-*/rps_flow_cnt'
    # power:runtime_pm@0000:00:1f.2 = auto
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'power:runtime_pm' 'same' 'value' 'auto' '' '/sys/bus/pci/devices/0000:00:1f.2/power/control'
    # power:usb_control@1-1 = on
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'power:usb_control' 'same' 'value' 'on' '' '/sys/bus/usb/devices/1-1/power/control'
    # power:sata_link_power@* = max_performance
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'power:sata_link_power' 'same' 'value' 'max_performance' '' '/sys/class/scsi_host/host*/link_power_management_policy'
    # cpu:energy_perf_bias@cpu3 = 0
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'cpu:energy_perf_bias' 'same' 'value' '0' '' '/sys/devices/system/cpu/cpu3/power/energy_perf_bias'
    # cpufreq:scaling_governor@* = performance
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'cpufreq:scaling_governor' 'choice' 'value' 'performance' '' '/sys/devices/system/cpu/cpufreq/policy*/scaling_governor'
    # cpuidle:state_disable@cpu0/state2 = 1
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'cpuidle:state_disable' 'same' 'value' '1' '' '/sys/devices/system/cpu/cpu0/cpuidle/state2/disable'
    # cgroup:cpu.weight@user.slice/user-1000.slice = 200
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'cgroup:cpu.weight' 'same' 'value' '200' '' '/sys/fs/cgroup/user.slice/user-1000.slice/cpu.weight'
    # feature:NEXT_BUDDY = NEXT_BUDDY
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'feature:NEXT_BUDDY' 'feature' 'value' 'NEXT_BUDDY' '' '/sys/kernel/debug/sched/features'
    # sched:base_slice_ns = 3000000
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'sched:base_slice_ns' 'same' 'value' '3000000' '' '/sys/kernel/debug/sched/base_slice_ns'
    # zswap:max_pool_percent = 20
    #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
    setting 'zswap:max_pool_percent' 'same' 'value' '20' '' '/sys/module/zswap/parameters/max_pool_percent'
}
