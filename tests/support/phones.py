# SPDX-License-Identifier: Apache-2.0
"""Four phones: the files in their kernels that modules write, and root file systems like Android's."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.exporters import export, targets
from ktrial.tuning.exports.model import LastingProfile
from ktrial.tuning.exports.phone.log import PhoneBoot, parse_log
from ktrial.tuning.exports.phone.resolve import PHONE_FACTS, phone_settings
from ktrial.tuning.exports.resolve import WantedSetting, lasting_settings
from ktrial.tuning.knobs.address import parse_assignment
from ktrial.tuning.knobs.profile import Setting, flatten
from ktrial.tuning.plans.model import Context
from tests.support.fake_kernel import (
    FakeKernel,
    KernelFile,
    Served,
    Write,
    boosts,
    chooser,
    clamped,
    ignored,
    number,
    numbers,
    read_only,
    truth,
    word,
)

ANY = number(0, 2**64)
POLICIES = "/sys/devices/system/cpu/cpufreq"
#: Sysctls of every kernel, with the values that a phone's maker sets.
_SYSCTLS: Mapping[str, tuple[str | int, Write]] = {
    "kernel/perf_cpu_time_max_percent": (25, number(0, 100)),
    "vm/dirty_background_ratio": (5, number(0, 100)),
    "vm/dirty_ratio": (20, number(0, 100)),
    "vm/dirty_background_bytes": (0, ANY),
    "vm/dirty_bytes": (0, ANY),
    "vm/dirty_expire_centisecs": (200, ANY),
    "vm/dirty_writeback_centisecs": (500, ANY),
    "vm/extfrag_threshold": (500, number(0, 1000)),
    "vm/oom_dump_tasks": (1, number(0, 1)),
    "vm/page-cluster": (3, ANY),
    "vm/stat_interval": (1, ANY),
    "vm/swappiness": (60, number(0, 200)),
    "vm/vfs_cache_pressure": (100, ANY),
    "net/ipv4/tcp_ecn": (2, number(0, 2)),
    "net/ipv4/tcp_fastopen": (1, ANY),
    "net/ipv4/tcp_syncookies": (1, number(0, 2)),
    "kernel/printk_devkmsg": ("ratelimit", word("on", "off", "ratelimit")),
    "kernel/random/boot_id": ("first", read_only),
}
_OLD_SCHEDULER = {
    "sched_tunable_scaling": (1, number(0, 2)),
    "sched_latency_ns": (18000000, ANY),
    "sched_min_granularity_ns": (2250000, ANY),
    "sched_wakeup_granularity_ns": (3000000, ANY),
    "sched_migration_cost_ns": (500000, ANY),
    "sched_nr_migrate": (32, ANY),
    "sched_child_runs_first": (0, number(0, 1)),
    "sched_schedstats": (1, number(0, 1)),
}


def _any(clocks: str, first_cpus: Mapping[int, int]) -> FakeKernel:
    kernel = FakeKernel()
    for name, (value, write) in _SYSCTLS.items():
        kernel.add(f"/proc/sys/{name}", value, write)
    for one, other in (("ratio", "bytes"), ("bytes", "ratio")):
        for start in ("dirty", "dirty_background"):
            kernel.files[f"/proc/sys/vm/{start}_{one}"].then = _clears(f"/proc/sys/vm/{start}_{other}")
    for cpu, capacity in first_cpus.items():
        policy, offered = f"{POLICIES}/policy{cpu}", " ".join(clocks.split()[: 3 + cpu])
        kernel.add(f"{policy}/scaling_available_frequencies", f"{offered} ")
        kernel.add(f"{policy}/cpuinfo_max_freq", offered.split()[-1])
        kernel.add(f"{policy}/related_cpus", " ".join(str(one) for one in range(cpu, cpu + 4)))
        kernel.add(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq", offered.split()[-1])
        if capacity:
            kernel.add(f"/sys/devices/system/cpu/cpu{cpu}/cpu_capacity", capacity)
    return kernel


def _clears(path: str) -> Callable[[FakeKernel], None]:
    def then(kernel: FakeKernel) -> None:
        kernel.files[path].value = "0"

    return then


def _governor(kernel: FakeKernel, cpu: int, governors: str, own: Mapping[str, Mapping[str, tuple[str, Write]]]) -> None:
    """Give a policy its governors; `own` are the files that exist while a governor is chosen."""
    policy, offered = f"{POLICIES}/policy{cpu}", governors.split()
    kernel.add(f"{policy}/scaling_available_governors", governors)

    def then(kernel: FakeKernel) -> None:
        chosen = kernel.files[f"{policy}/scaling_governor"].value
        for path in [path for path in kernel.files if path.startswith(tuple(f"{policy}/{name}/" for name in own))]:
            del kernel.files[path]
        for name, (value, write) in own.get(chosen, {}).items():
            kernel.add(f"{policy}/{chosen}/{name}", value, write)

    kernel.files[f"{policy}/scaling_governor"] = KernelFile(offered[0], word(*offered), then=then)
    then(kernel)


def _disk(kernel: FakeKernel, name: str, schedulers: str, **other: tuple[str, Write]) -> None:
    queue = f"/sys/block/{name}/queue"

    def then(kernel: FakeKernel) -> None:
        kernel.files[f"{queue}/nr_requests"].value = "128"

    files = {"iostats": ("1", number(0, 1)), "read_ahead_kb": ("512", ANY), "nr_requests": ("128", number(4, 1024))}
    for file, (value, write) in {**files, "add_random": ("1", number(0, 1)), **other}.items():
        kernel.add(f"{queue}/{file}", value, write)
    kernel.files[f"{queue}/scheduler"] = chooser(schedulers, then)


def _features(kernel: FakeKernel, path: str, features: str) -> None:
    def write(kernel: FakeKernel, text: str) -> str:
        name = text.removeprefix("NO_")
        words = kernel.files[path].value.split()
        return " ".join(text if one.removeprefix("NO_") == name else one for one in words)

    kernel.files[path] = KernelFile(features, write)


def qualcomm_414() -> FakeKernel:
    """Return a kernel with Interactive, CAF's input boost and sysctls of the old scheduler; some files misbehave."""
    kernel = _any("576000 1036800 1401600 1785600 2419200 2841600 2956800", {0: 250, 4: 1024})
    qualcomm: Mapping[str, tuple[str | int, Write]] = {
        "sched_upmigrate": ("95\t95", numbers(2)),
        "sched_downmigrate": ("85\t85", numbers(2)),
        "sched_group_upmigrate": (100, ANY),
        "sched_group_downmigrate": (95, ANY),
        "sched_min_task_util_for_boost": (51, clamped(40, 1000)),
        "sched_min_task_util_for_colocation": (35, ANY),
    }
    for name, (value, write) in {**_OLD_SCHEDULER, **qualcomm}.items():
        kernel.add(f"/proc/sys/kernel/{name}", value, write)
    kernel.add("/proc/sys/vm/reap_mem_on_sigkill", 0, number(0, 1))
    kernel.files["/proc/sys/vm/oom_dump_tasks"].write = ignored
    kernel.files["/proc/sys/vm/stat_interval"].write = read_only
    kernel.files["/proc/sys/vm/extfrag_threshold"].unreadable = True
    _features(kernel, "/sys/kernel/debug/sched_features", "NO_NEXT_BUDDY STRICT_SKIP_BUDDY NONTASK_CAPACITY TTWU_QUEUE")
    boost = "/sys/module/cpu_boost/parameters"
    kernel.add(f"{boost}/input_boost_freq", "".join(f"{cpu}:0 " for cpu in range(8)), boosts)
    kernel.add(f"{boost}/input_boost_ms", 40, ANY)
    interactive = {"go_hispeed_load": ("90", ANY), "hispeed_freq": ("1036800", ANY)}
    interactive |= {"timer_rate": ("20000", ANY), "min_sample_time": ("80000", ANY)}
    for cpu in (0, 4):
        _governor(kernel, cpu, "interactive performance powersave", {"interactive": interactive})
    _disk(kernel, "sda", "noop deadline [cfq] kyber")
    _disk(kernel, "dm-0", "none", nr_requests=("128", read_only))
    for name, value in (("boost", 0), ("prefer_idle", 1)):
        kernel.add(f"/dev/stune/top-app/schedtune.{name}", value, ANY)
    return kernel


def qualcomm_walt() -> FakeKernel:
    """Return kernel 5.4 with the walt governor, three clusters, and migration thresholds in their own folder."""
    kernel = _any("300000 1305600 1516800 1804800 2419200 2841600 3187200", {0: 0, 4: 0, 7: 0})
    for name, (value, write) in _OLD_SCHEDULER.items():
        kernel.add(f"/proc/sys/kernel/{name}", value, write)
    for name, low in (("up", "95\t90"), ("down", "85\t80")):
        kernel.add(f"/proc/sys/walt/sched_{name}migrate", low, numbers(2))
    for cpu in (0, 4, 7):
        walt = {"hispeed_load": ("90", ANY), "hispeed_freq": ("0", clamped(0, 3187200))}
        walt |= {"up_rate_limit_us": ("0", ANY), "down_rate_limit_us": ("0", ANY)}
        _governor(kernel, cpu, "walt performance", {"walt": walt})
    kernel.files["/proc/sys/vm/dirty_bytes"].value = "209715200"
    kernel.files["/proc/sys/vm/dirty_ratio"].value = "0"
    _disk(kernel, "sda", "[mq-deadline] kyber none")
    kernel.add("/sys/devices/system/cpu/cpu_boost/input_boost_freq", "0:0", read_only)
    return kernel


def gki_515() -> FakeKernel:
    """Return a generic kernel: schedutil is not the maker's choice, and the scheduler's values are in debugfs."""
    kernel = _any("300000 1197000 1548000 1836000 2348000 2507000", {0: 160, 4: 498})
    for name, (value, write) in _OLD_SCHEDULER.items():
        is_sysctl = name in {"sched_child_runs_first", "sched_schedstats"}
        path = f"/proc/sys/kernel/{name}" if is_sysctl else f"/sys/kernel/debug/sched/{name.removeprefix('sched_')}"
        kernel.add(path, value, write)
    kernel.add("/proc/sys/kernel/sched_autogroup_enabled", 0, number(0, 1))
    _features(kernel, "/sys/kernel/debug/sched/features", "NO_NEXT_BUDDY NONTASK_CAPACITY NO_TTWU_QUEUE")
    for cpu in (0, 4):
        schedutil = {
            "up_rate_limit_us": ("500", ANY),
            "down_rate_limit_us": ("20000", ANY),
            "rate_limit_us": ("0", ANY),
        }
        schedutil |= {"hispeed_load": ("90", ANY), "hispeed_freq": ("0", ANY)}
        _governor(kernel, cpu, "performance schedutil", {"schedutil": schedutil})
    for disk in ("sda", "sdb"):
        _disk(kernel, disk, "none [mq-deadline] kyber bfq")
        kernel.files[f"/sys/block/{disk}/queue/wbt_lat_usec"] = KernelFile("", ANY, unreadable=True)
    return kernel


def mainline() -> FakeKernel:
    """Return kernel 6.6 on a phone; EEVDF has none of the old values."""
    kernel = _any("300000 1363200 1478400 1766400", {0: 381, 4: 1024})
    kernel.add("/proc/sys/kernel/sched_autogroup_enabled", 1, number(0, 1))
    for name, value in (
        ("tunable_scaling", 1),
        ("base_slice_ns", 2800000),
        ("migration_cost_ns", 500000),
        ("nr_migrate", 32),
    ):
        kernel.add(f"/sys/kernel/debug/sched/{name}", value, ANY)
    _features(kernel, "/sys/kernel/debug/sched/features", "NO_NEXT_BUDDY PLACE_LAG NONTASK_CAPACITY TTWU_QUEUE")
    for cpu in (0, 4):
        _governor(kernel, cpu, "schedutil performance", {"schedutil": {"rate_limit_us": ("2000", ANY)}})
    _disk(kernel, "mmcblk0", "[none] mq-deadline")
    kernel.add("/sys/module/zswap/parameters/enabled", "N", truth)
    return kernel


PHONES: Mapping[str, Callable[[], FakeKernel]] = {
    one.__name__: one for one in (qualcomm_414, qualcomm_walt, gki_515, mainline)
}
#: Shell of /system/bin/sh -> the program with all other commands. Debian's toybox has no shell.
USERLANDS = {"busybox": "busybox", "mksh": "toybox", "dash": "toybox"}
_GETPROP = """#!/system/bin/sh
case $1 in
sys.boot_completed) echo 1 ;;
ro.product.manufacturer) echo Example ;;
ro.product.model) echo One ;;
ro.build.version.release) echo 14 ;;
esac
"""
#: Sleeps without waiting. Events that a test wants to happen meanwhile are in a file.
_SLEEP = """#!/system/bin/sh
echo "$1" >> /data/slept
if [ -e "/data/during-$1" ]; then . "/data/during-$1"; fi
"""


class Phone:
    """A root with Android's folders, and a new kernel at each boot."""

    def __init__(self, root: Path, make: Callable[[], FakeKernel], shell: str) -> None:
        self.root = root
        self._make = make
        self._boots = 0
        for folder in ("system/bin", "data/adb/modules", "dev", "mnt", "proc", "sys"):
            (root / folder).mkdir(parents=True)
        (root / "dev/null").touch()
        commands = USERLANDS[shell]
        for program in {shell, commands}:
            _install(root, program)
        shown = subprocess.run(
            [commands, *(["--list"] if commands == "busybox" else [])], capture_output=True, text=True, check=True
        )
        for name in shown.stdout.split():
            if not (root / "system/bin" / name).exists() and "/" not in name:
                (root / "system/bin" / name).symlink_to(commands)
        for name, text in (("getprop", _GETPROP), ("sleep", _SLEEP)):
            (root / "system/bin" / name).unlink(missing_ok=True)
            (root / "system/bin" / name).write_text(text)
            (root / "system/bin" / name).chmod(0o755)
        (root / "system/bin/sh").unlink(missing_ok=True)
        (root / "system/bin/sh").symlink_to(shell)
        self.kernel = self.boot()

    def boot(self) -> FakeKernel:
        """Restart the phone; the kernel has its initial values again."""
        self.kernel = self._make()
        self._boots += 1
        self.kernel.files["/proc/sys/kernel/random/boot_id"].value = f"boot-{self._boots}"
        return self.kernel

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def sh(self, *words: str, mount: str | None = None) -> subprocess.CompletedProcess[str]:
        return Served(self.kernel).run(self.root, "/system/bin/sh", *words, mount=mount)


def _install(root: Path, program: str) -> None:
    source = shutil.which(program)
    assert source is not None
    shutil.copy(source, root / "system/bin" / program)
    listed = subprocess.run(["ldd", source], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        library = next((one for one in line.split() if one.startswith("/")), None)
        if library is not None:
            (root / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library.lstrip("/"))


#: The folders on a phone for modules, and for data that must outlive a module.
MODULES, STATES = "/data/adb/modules", "/data/adb/ktrial"
CATALOG = load_catalog()


def module_files_of(words: Sequence[str], target: str = "magisk", name: str = "sample") -> Mapping[str, str]:
    """Return the files of a module with profiles and settings."""
    wanted = []
    for given in words:
        if "=" in given:
            address, value = parse_assignment(given)
            wanted.append(WantedSetting(Setting(knob=str(address), value=value), f"setting {given}"))
        else:
            wanted += [WantedSetting(one, f"profile {given}") for one in flatten(given, CATALOG.profiles)]
    context = Context(CATALOG.knobs, CATALOG.kinds, PHONE_FACTS, {})
    settings, left = lasting_settings(wanted, context, lambda _: ("not tested on this phone",), phone_settings)
    assert left == ()
    profile = LastingProfile(name=name, title=" ".join(words), settings=settings)
    return export(profile, [targets()[target]], targets().values())[targets()[target]]


def installed(phone: Phone, files: Mapping[str, str]) -> str:
    """Put a module where its manager installs it, and return its folder on the phone.

    A new version replaces the old one.
    """
    name = next(line for line in files["module.prop"].split("\n") if line.startswith("id=")).removeprefix("id=")
    folder = phone.path(f"{MODULES}/{name}")
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    return f"{MODULES}/{name}"


def ran(phone: Phone, script: str, status: int = 0) -> str:
    """Return the output of a script of the module."""
    done = phone.sh(script)
    out, said = without_locale(done.stdout), without_locale(done.stderr)
    assert (done.returncode, said) == (status, ""), (script, out)
    return out


def without_locale(text: str) -> str:
    """Remove mksh's message that it does not find the German locale, with which all scripts are tested."""
    return "".join(line for line in text.splitlines(keepends=True) if "setlocale" not in line)


def started(phone: Phone, folder: str) -> PhoneBoot:
    """Switch a phone on and run both scripts; return what the module logged."""
    ran(phone, f"{folder}/post-fs-data.sh")
    ran(phone, f"{folder}/service.sh")
    return newest_log(phone, folder)


def newest_log(phone: Phone, folder: str) -> PhoneBoot:
    boot = parse_log(phone.path(f"{STATES}/{folder.rpartition('/')[2]}/log").read_text())[-1]
    assert boot.unread == ()
    return boot
