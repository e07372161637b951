# SPDX-License-Identifier: Apache-2.0
"""Lasting settings of the real catalog, and hostile ones."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.exports.model import LastingProfile, LastingSetting
from ktrial.tuning.knobs.address import parse_assignment
from ktrial.tuning.knobs.knob import Knob, ValueSpec
from ktrial.tuning.knobs.value import kernel_text

KNOBS = load_catalog().knobs
REASON = (
    "better in time (wakeups): -12 % (95 % interval -15 % to -9 %), n = 12 blocks [2026-11-21, swappiness-3fa9c1/10]"
)
#: At least one setting of each form, and one of each subsystem of devices.
SAMPLES = (
    *("vm.swappiness=10", "net.ipv4.tcp_rmem=4096 131072 6291456", "thp:enabled=madvise", "irq:smp_affinity@irq7=3"),
    *("queue:scheduler@nvme*=none", "queue:wbt_lat_usec@sda=0", "nvme:pm_qos_latency_tolerance_us@*=0"),
    *(
        "net:tx_queue_len@eth0=1000",
        "net:rps_cpus@eth0/rx-0=f",
        "net:rps_flow_cnt@*/rx-*=4096",
        "power:runtime_pm@0000:00:1f.2=auto",
    ),
    *("power:usb_control@1-1=on", "power:sata_link_power@*=max_performance", "cpu:energy_perf_bias@cpu3=0"),
    *("cpufreq:scaling_governor@*=performance", "cpuidle:state_disable@cpu0/state2=1"),
    *("cgroup:cpu.weight@user.slice/user-1000.slice=200", "feature:NEXT_BUDDY=on", "sched:base_slice_ns=3000000"),
    *("zswap:max_pool_percent=20", "module:nvme_core.io_timeout=30", "power:iwlwifi_power_save=off"),
    *("zram:disksize@zram0=4GiB", "zram:comp_algorithm@zram0=zstd", "zram:mem_limit@zram0=1073741825"),
    *("boot:preempt=full", "boot:nowatchdog=on", "boot:nosmt=on", "boot:psi=on", "boot:isolcpus=domain,2-5"),
    *("kconfig:HZ=1000", "kconfig:RCU_LAZY=off", "kconfig:processor-family=MZEN4", "kconfig:MIN_BASE_SLICE_NS=2000000"),
    *("build:march=znver4", "build:O3=on", "build:LLVM=1"),
)


def lasting(word: str, **fields: object) -> LastingSetting:
    """Return KNOB=VALUE as a lasting setting."""
    address, value = parse_assignment(word)
    knob = KNOBS[address.knob]
    place = knob.files[0] if knob.files else None
    given = {"pattern": address.selector, "place": place, "reasons": (REASON,), **fields}
    return LastingSetting(knob=knob, text=kernel_text(knob, value), **given)  # type: ignore[arg-type]


SETTINGS = (
    *map(lasting, SAMPLES),
    lasting("queue:read_ahead_kb=256", rotational=False, reasons=("not tested on this machine", "second line")),
)


def profile(settings: Iterable[LastingSetting], name: str = "sample") -> LastingProfile:
    return LastingProfile(name=name, title="sample", settings=tuple(settings))


def own_knob(name: str, place: str, kind: str = "sysfs") -> Knob:
    """Return a knob of the user's own catalog, which accepts any text."""
    fields = {"takes_effect": "now", "risk": "safe", "what": "-", "price": "-"}
    return Knob(id=name, kind=kind, value=ValueSpec(type="text"), places=(place,), **fields)  # type: ignore[arg-type]


PLACES = (
    *("/proc/sys/net/ipv4/conf/{interface}/tag", "/sys/block/{block}/queue/scheduler"),
    *("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/module/nvme_core/parameters/io_timeout"),
)
#: Texts that a shell, a unit, a rule, an INI file or a template could interpret.
NASTY = (
    *("$(touch /tmp/owned)", "`id`", "%n", "%%", "$HOME", "${HOME}", "a'b", 'a"b', "a\\", "\\n", "a\\\nb", "a\nb"),
    *("*", "?", "[a]", "~", "#x", "a #b", "; b", "a;b", "-", "--", "=", "a=b", ">1", "<1", "''", '""', "{{ x }}", "|"),
    *("\x00", "\x1b[2J", "\x7f", "\u2028", "\udcff", "é", "a\tb", " a", "a ", "", "&", "!", "x" * 600, "''${x}"),
)
values = st.one_of(
    st.sampled_from(NASTY),
    st.text(min_size=1, max_size=20),
    st.text(alphabet="ab\\\"'$%`{}()[]*?#;=<>|&! -~\n\t", min_size=1, max_size=12),
)
names = st.one_of(
    st.sampled_from(
        ("eth0.100", "nvme0n1", "a b", "a'b", 'a"b', "$(id)", "%k", "..", "a|b", "*", "wl[0-9]", "\n", "-a")
    ),
    st.text(alphabet="ab0.:*?[]-$%'\" \\|=", min_size=1, max_size=8),
)


@st.composite
def hostile_settings(draw: st.DrawFn) -> LastingSetting:
    """Draw a setting whose name, value and reasons are hostile."""
    place = draw(st.sampled_from(PLACES))
    kind = "sysctl" if place.startswith("/proc") else "module" if place.startswith("/sys/module") else "sysfs"
    knob = own_knob("own", place, kind)
    pattern = draw(names) if "{" in place else None
    return LastingSetting(knob=knob, text=draw(values), place=place, pattern=pattern, reasons=(draw(values),))


hostile_words = st.builds(
    lambda name, text, reason: LastingSetting(knob=own_word(name), text=text, reasons=(reason,)),
    st.sampled_from(("preempt", "trace_event", "module.parameter")),
    values,
    values,
)


def own_word(name: str) -> Knob:
    fields = {"takes_effect": "boot", "risk": "safe", "what": "-", "price": "-"}
    return Knob(id=f"boot:{name}", kind="boot", value=ValueSpec(type="text"), **fields)  # type: ignore[arg-type]
