# Written by ktrial export: sample.
# Priority 75 wins over plain definitions and loses to lib.mkForce.

{ lib, ... }:
{
  # vm.swappiness = 10
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # net.ipv4.tcp_rmem = 4096 131072 6291456
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  boot.kernel.sysctl."vm.swappiness" = lib.mkOverride 75 "10";
  boot.kernel.sysctl."net.ipv4.tcp_rmem" = lib.mkOverride 75 "4096 131072 6291456";

  # thp:enabled = madvise
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # irq:smp_affinity@irq7 = 3
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # zswap:max_pool_percent = 20
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  systemd.tmpfiles.rules = lib.mkAfter [
    "w! /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise"
    "w! /proc/irq/7/smp_affinity - - - - 3"
    "w! /sys/module/zswap/parameters/max_pool_percent - - - - 20"
  ];

  # queue:scheduler@nvme* = none
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # queue:wbt_lat_usec@sda = 0
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # nvme:pm_qos_latency_tolerance_us@* = 0
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # net:tx_queue_len@eth0 = 1000
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # net:rps_cpus@eth0/rx-0 = f
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # net:rps_flow_cnt@*/rx-* = 4096
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # power:runtime_pm@0000:00:1f.2 = auto
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # power:usb_control@1-1 = on
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # power:sata_link_power@* = max_performance
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # cpu:energy_perf_bias@cpu3 = 0
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # cpufreq:scaling_governor@* = performance
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # cpuidle:state_disable@cpu0/state2 = 1
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # queue:read_ahead_kb@[rotational=false] = 256
  #   not tested on this machine
  #   second line
  services.udev.extraRules = lib.mkAfter (lib.concatStringsSep "\n" [
    "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", KERNEL==\"nvme*\", TEST==\"queue/scheduler\", ATTR{queue/scheduler}=\"none\""
    "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", KERNEL==\"sda\", TEST==\"queue/wbt_lat_usec\", ATTR{queue/wbt_lat_usec}=\"0\""
    "ACTION==\"add|change\", SUBSYSTEM==\"nvme\", KERNEL==\"nvme*\", TEST==\"power/pm_qos_latency_tolerance_us\", ATTR{power/pm_qos_latency_tolerance_us}=\"0\""
    "ACTION==\"add|change|move\", SUBSYSTEM==\"net\", KERNEL==\"eth0\", TEST==\"tx_queue_len\", ATTR{tx_queue_len}=\"1000\""
    "ACTION==\"add|change|move\", SUBSYSTEM==\"net\", KERNEL==\"eth0\", TEST==\"queues/rx-0/rps_cpus\", ATTR{queues/rx-0/rps_cpus}=\"f\""
    "ACTION==\"add|change\", SUBSYSTEM==\"queues\", KERNEL==\"rx-*\", TEST==\"rps_flow_cnt\", ATTR{rps_flow_cnt}=\"4096\""
    "ACTION==\"add|change\", SUBSYSTEM==\"pci\", KERNEL==\"0000:00:1f.2\", TEST==\"power/control\", ATTR{power/control}=\"auto\""
    "ACTION==\"add|change\", SUBSYSTEM==\"usb\", KERNEL==\"1-1\", TEST==\"power/control\", ATTR{power/control}=\"on\""
    "ACTION==\"add|change\", SUBSYSTEM==\"scsi_host\", KERNEL==\"host*\", TEST==\"link_power_management_policy\", ATTR{link_power_management_policy}=\"max_performance\""
    "ACTION==\"add|change\", SUBSYSTEM==\"cpu\", KERNEL==\"cpu3\", TEST==\"power/energy_perf_bias\", ATTR{power/energy_perf_bias}=\"0\""
    "ACTION==\"add|change\", SUBSYSTEM==\"cpu\", KERNEL==\"cpu*\", TEST==\"cpufreq/scaling_governor\", ATTR{cpufreq/scaling_governor}=\"performance\""
    "ACTION==\"add|change\", SUBSYSTEM==\"cpu\", KERNEL==\"cpu0\", TEST==\"cpuidle/state2/disable\", ATTR{cpuidle/state2/disable}=\"1\""
    "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", ATTR{queue/rotational}==\"0\", TEST==\"queue/read_ahead_kb\", ATTR{queue/read_ahead_kb}=\"256\""
  ]);

  # cgroup:cpu.weight@user.slice/user-1000.slice = 200
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # feature:NEXT_BUDDY = NEXT_BUDDY
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # sched:base_slice_ns = 3000000
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  systemd.services."ktrial-sample" = {
    wantedBy = [ "multi-user.target" ];
    after = [ "systemd-tmpfiles-setup.service" "sys-kernel-debug.mount" ];
    serviceConfig = { Type = "oneshot"; RemainAfterExit = true; };
    script = lib.concatStringsSep "\n" [
      "printf '%s\\n' '200' > /sys/fs/cgroup/user.slice/user-1000.slice/cpu.weight"
      "printf '%s\\n' 'NEXT_BUDDY' > /sys/kernel/debug/sched/features"
      "printf '%s\\n' '3000000' > /sys/kernel/debug/sched/base_slice_ns"
    ];
  };

  # module:nvme_core.io_timeout = 30
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # power:iwlwifi_power_save = 0
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  boot.extraModprobeConfig = lib.mkAfter (lib.concatStringsSep "\n" [
    "options nvme_core io_timeout=30"
    "options iwlwifi power_save=0"
  ]);

  # zram:disksize@zram0 = 4294967296
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # zram:comp_algorithm@zram0 = zstd
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  zramSwap.enable = lib.mkOverride 75 true;
  zramSwap.memoryPercent = lib.mkOverride 75 1000;
  zramSwap.memoryMax = lib.mkOverride 75 4294967296;
  zramSwap.algorithm = lib.mkOverride 75 "zstd";

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
  boot.kernelParams = lib.mkAfter [ "preempt=full" "nowatchdog" "nosmt" "psi=1" "isolcpus=domain,2-5" ];

  # kconfig:HZ = 1000
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # kconfig:RCU_LAZY = 0
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # kconfig:processor-family = MZEN4
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  # kconfig:MIN_BASE_SLICE_NS = 2000000
  #   better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]
  boot.kernelPatches = [
    {
      name = "ktrial-sample";
      patch = null;
      structuredExtraConfig = with lib.kernel; {
        "HZ_1000" = lib.mkForce yes;
        "RCU_LAZY" = lib.mkForce no;
        "MZEN4" = lib.mkForce yes;
        "MIN_BASE_SLICE_NS" = lib.mkForce (freeform "2000000");
      };
    }
  ];
}
