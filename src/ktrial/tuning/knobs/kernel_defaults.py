# SPDX-License-Identifier: Apache-2.0
"""Values that the kernel's own configuration decides: what a knob is when nobody touches it on this kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Knob -> symbol whose value is the knob's.
_SAME = {
    "net.ipv4.tcp_congestion_control": "DEFAULT_TCP_CONG",
    "net.core.default_qdisc": "DEFAULT_NET_SCH",
    "vm.compact_unevictable_allowed": "COMPACT_UNEVICTABLE_DEFAULT",
    "zswap:compressor": "ZSWAP_COMPRESSOR_DEFAULT",
    "zswap:zpool": "ZSWAP_ZPOOL_DEFAULT",
    "kernel.hung_task_timeout_secs": "DEFAULT_HUNG_TASK_TIMEOUT",
}
#: Knob -> symbol that switches it on.
_SWITCH = {
    "zswap:enabled": "ZSWAP_DEFAULT_ON",
    "zswap:shrinker_enabled": "ZSWAP_SHRINKER_DEFAULT_ON",
    "kernel.numa_balancing": "NUMA_BALANCING_DEFAULT_ENABLED",
    "kernel.sched_autogroup_enabled": "SCHED_AUTOGROUP",
    "workqueue:power_efficient": "WQ_POWER_EFFICIENT_DEFAULT",
}
#: Knob -> symbols of which one is set, and the value that each stands for.
_CHOICE = {
    "thp:enabled": {
        "TRANSPARENT_HUGEPAGE_ALWAYS": "always",
        "TRANSPARENT_HUGEPAGE_MADVISE": "madvise",
        "TRANSPARENT_HUGEPAGE_NEVER": "never",
    },
    "cpufreq:scaling_governor": {
        f"CPU_FREQ_DEFAULT_GOV_{name.upper()}": name
        for name in ("performance", "powersave", "userspace", "ondemand", "conservative", "schedutil")
    },
    "power:pcie_aspm_policy": {
        "PCIEASPM_DEFAULT": "default",
        "PCIEASPM_POWERSAVE": "powersave",
        "PCIEASPM_POWER_SUPERSAVE": "powersupersave",
        "PCIEASPM_PERFORMANCE": "performance",
    },
}


def built_value(knob: str, configuration: Mapping[str, Any]) -> tuple[str, str] | None:
    """(symbol, value) that this kernel's configuration gives the knob; None where it decides nothing."""
    symbol = _SAME.get(knob)
    if symbol is not None:
        value = configuration.get(symbol)
        return (symbol, str(value)) if value not in (None, "", "n") else None
    symbol = _SWITCH.get(knob)
    if symbol is not None and symbol in configuration:
        return symbol, "1" if configuration[symbol] == "y" else "0"
    for symbol, value in _CHOICE.get(knob, {}).items():
        if configuration.get(symbol) == "y":
            return symbol, value
    return None
