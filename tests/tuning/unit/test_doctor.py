# SPDX-License-Identifier: Apache-2.0
"""What doctor finds on machines made of dictionaries."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.machine.facts import Fact
from ktrial.machine.reading import Reading
from ktrial.tuning.doctor.examine import _STATE_NOT_SETTING, _tunable, examine
from ktrial.tuning.doctor.model import Counts, Examination
from ktrial.tuning.doctor.text import doctor_json, doctor_text
from tests.support.knobs import catalog
from tests.support.machine import FakeMachine

QUIET_FILES: dict[str, str | Reading] = {
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/dirty_ratio": "20\n",
    "/proc/loadavg": "0.10 0.05 0.01 1/100 1\n",
    "/proc/stat": "cpu  1000 0 500 90000 10 0 5 0 0 0\n",
    "/proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "/proc/self/mounts": "proc /proc proc rw,relatime 0 0\nsysfs /sys sysfs rw 0 0\n",
    "/proc/sys/kernel/perf_event_paranoid": "2\n",
    "/sys/bus/event_source/devices/cpu": "",
    "/sys/class/hwmon/hwmon0/energy1_input": "",
}
QUIET_FACTS: dict[str, Any] = {
    "cpu.model": "Model X",
    "cpu.threads": 8,
    "memory.total": 16 << 30,
    "memory.available": 12 << 30,
    "swap.used": 0,
    "power.source": "mains",
    "cpufreq.governor": "performance",
    "cpufreq.boost": False,
    "kernel.clocksource": "tsc",
    "kernel.lockdown": "none",
    "virtualisation.kind": "none",
    "container.kind": "none",
    "services.active": [],
    "boot.uptime": 4000.0,
    "psi.available": True,
    "tracing.debugfs": True,
    "tracing.tracefs": True,
    "block.devices": [],
}


def look(
    files: dict[str, str | Reading] | None = None, facts: dict[str, Any] | None = None, *, is_root: bool = True
) -> Examination:
    machine = FakeMachine({**QUIET_FILES, **(files or {})}, {**QUIET_FACTS, **(facts or {})}, is_root=is_root)
    machine.answers["status"] = {"transactions": [], "damaged": []}
    return examine(machine, catalog())


def test_each_knob_is_counted_once() -> None:
    files: dict[str, str | Reading] = {
        "/proc/sys/vm/swappiness": "10\n",
        "/proc/sys/vm/dirty_ratio": Reading(unreadable="no"),
    }
    examination = look(files)
    assert examination.counts == Counts(looked_at=3, at_default=0, differ=1, default_unknown=1, unreadable=1, absent=7)


def test_the_machine_is_told_in_five_lines() -> None:
    disks = [
        {"name": "vda", "scheduler": "mq-deadline"},
        {"name": "nvme0n1", "scheduler": None},
        {"name": "dm-0", "scheduler": "none", "virtual": True},
        {"name": "loop0", "scheduler": "none"},
    ]
    facts = {
        "kernel.release": "6.12.1",
        "kernel.scheduler": "EEVDF",
        "kernel.preemption": "full",
        "os.name": "Debian 12",
        "virtualisation.kind": "kvm",
        "container.kind": "docker",
        "block.devices": disks,
    }
    assert dict(look(facts=facts).machine) == {
        "CPU": "Model X, 8 threads",
        "memory": "16 GiB",
        "kernel": "6.12.1, EEVDF, preemption full",
        "system": "Debian 12, in a kvm guest, in a docker container",
        "disks": "vda (mq-deadline), nvme0n1 (no scheduler)",
    }
    known = {"cpu.model": "Model X", "os.name": "Debian 12"}
    quiet = look(facts={**dict.fromkeys(QUIET_FACTS), **known, "virtualisation.kind": "none", "container.kind": "none"})
    assert quiet.machine == (("CPU", "Model X"), ("system", "Debian 12"))


def test_a_quiet_machine_at_its_defaults() -> None:
    examination = look()
    assert examination.counts == Counts(looked_at=3, at_default=2, differ=0, default_unknown=1, unreadable=0, absent=7)
    assert (examination.differ, examination.confounders, examination.limits) == ((), (), ())
    text = doctor_text(examination, width=80)
    assert "Disturbs measurements now: nothing found" in text
    assert "Cannot be measured or tuned here: nothing found" in text


@pytest.mark.parametrize(
    "files,facts,name",
    [
        ({}, {"power.source": "battery", "battery.level": 80}, "battery"),
        ({}, {"battery.level": 10}, "battery"),
        ({}, {"thermal.zones": [{"name": "z0", "kind": "x86_pkg_temp", "temperature_c": 91.0}]}, "heat"),
        ({}, {"cpufreq.governor": "schedutil"}, "governor"),
        ({}, {"cpufreq.boost": True}, "boost"),
        ({}, {"kernel.clocksource": "hpet"}, "clocksource"),
        ({"/proc/stat": "cpu  1000 0 500 9000 10 0 5 900 0 0\n"}, {}, "steal"),
        ({}, {"virtualisation.kind": "kvm"}, "guest"),
        ({"/proc/loadavg": "3.00 1 1 1/100 1\n"}, {}, "load"),
        ({"/proc/pressure/io": "some avg10=7.50 avg60=0 avg300=0 total=0\n"}, {}, "io pressure"),
        ({}, {"memory.available": 1 << 30}, "memory"),
        ({}, {"swap.used": 1 << 30}, "swap"),
        ({}, {"services.active": ["tuned", "irqbalance"]}, "other tuners"),
        ({}, {"kernel.sched_ext_state": "enabled", "kernel.sched_ext_name": "lavd"}, "sched_ext"),
        ({}, {"boot.uptime": 20.0}, "uptime"),
    ],
)
def test_one_confounder(files: dict[str, str | Reading], facts: dict[str, Any], name: str) -> None:
    (found,) = look(files, facts).confounders
    assert found.name == name
    assert found.found
    assert found.advice


@pytest.mark.parametrize(
    "facts",
    [
        {"thermal.zones": [{"name": "z0", "kind": None, "temperature_c": None}]},
        {name: Fact(unknown="could not tell") for name in QUIET_FACTS if name != "block.devices"},
        {name: Fact(absent="not here") for name in ("power.source", "cpufreq.governor", "services.active")},
    ],
)
def test_what_is_not_known_is_not_guessed(facts: dict[str, Any]) -> None:
    files: dict[str, str | Reading] = {"/proc/stat": Reading(unreadable="no"), "/proc/loadavg": "garbage\n"}
    assert look(files, facts).confounders == ()


@pytest.mark.parametrize(
    "files,facts,is_root,what",
    [
        ({}, {}, False, "knobs in debugfs and files that only root can read"),
        ({"/proc/self/mounts": "proc /proc proc rw 0 0\nproc /proc/sys proc ro 0 0\n"}, {}, True, "changing sysctls"),
        ({"/proc/self/mounts": "proc /proc proc ro 0 0\n"}, {}, True, "changing sysctls"),
        ({"/proc/self/mounts": "sysfs /sys sysfs ro,nosuid 0 0\n"}, {}, True, "changing settings below /sys"),
        ({}, {"kernel.lockdown": "integrity"}, True, "scheduler features and slices (debugfs), tracing of memory"),
        ({}, {"tracing.debugfs": False}, True, "scheduler features and slices"),
        ({}, {"tracing.debugfs": False}, False, "knobs in debugfs and files that only root can read"),
        (
            {},
            {"kernel.lockdown": "integrity", "tracing.debugfs": False},
            True,
            "scheduler features and slices (debugfs), tracing of memory",
        ),
        ({}, {"tracing.tracefs": False}, True, "tracing of wake-ups, reclaim and block I/O"),
        ({}, {"cpufreq.driver": Fact(absent="no driver")}, True, "clocks and governors"),
        ({}, {"cpuidle.driver": Fact(absent="no driver")}, True, "idle states (C-states)"),
        ({}, {"psi.available": False}, True, "pressure stall information"),
    ],
)
def test_one_limit(files: dict[str, str | Reading], facts: dict[str, Any], is_root: bool, what: str) -> None:
    (found,) = look(files, facts, is_root=is_root).limits
    assert found.what == what
    assert found.why
    assert found.lift


@pytest.mark.parametrize("container, where", [("none", ""), ("docker", " in this docker container")])
def test_what_is_mounted_read_only_is_told_with_the_container(container: str, where: str) -> None:
    (found,) = look({"/proc/self/mounts": "proc /proc proc ro 0 0\n"}, {"container.kind": container}).limits
    assert found.why == f"/proc/sys is mounted read-only{where}"


@pytest.mark.parametrize(
    "driver, kind, lift",
    [
        ("cpufreq.driver", "none", "check the firmware settings (CPPC, HWP)"),
        ("cpuidle.driver", "none", "boot without idle=poll and with an idle driver"),
        ("cpufreq.driver", "kvm", "depends on the host's firmware and kernel"),
        ("cpuidle.driver", "kvm", "depends on the host's firmware and kernel"),
    ],
)
def test_what_lifts_a_missing_driver_is_told_for_metal_and_for_guests(driver: str, kind: str, lift: str) -> None:
    (found,) = look({}, {driver: Fact(absent="no driver"), "virtualisation.kind": kind}).limits
    assert (found.why, found.lift) == (f"{driver.removesuffix('.driver')}: no driver", lift)


@pytest.mark.parametrize(
    "counter, facts, is_root, told",
    [
        ("powercap/intel-rapl:0/energy_uj", {}, False, ["only root can read the RAPL counters: measure as root"]),
        ("powercap/intel-rapl:0/energy_uj", {}, True, []),
        ("hwmon/hwmon0/energy1_input", {}, False, []),
        ("hwmon/hwmon0/name", {}, True, ["no energy counter found: use an external power meter"]),
        ("hwmon/hwmon0/name", {"power.source": "battery"}, True, []),
    ],
)
def test_where_energy_can_be_read(counter: str, facts: dict[str, Any], is_root: bool, told: list[str]) -> None:
    files = {name: text for name, text in QUIET_FILES.items() if "energy" not in name}
    machine = FakeMachine({**files, f"/sys/class/{counter}": ""}, {**QUIET_FACTS, **facts}, is_root=is_root)
    machine.answers["status"] = {"transactions": [], "damaged": []}
    limits = examine(machine, catalog()).limits
    assert [f"{one.why}: {one.lift}" for one in limits if one.what == "energy"] == told


def counters(unit: str, level: str = "2", *, is_root: bool = False) -> list[str]:
    """What is told of hardware counters on a machine of metal with this unit."""
    files = {name: text for name, text in QUIET_FILES.items() if "event_source" not in name}
    paranoid = {"/proc/sys/kernel/perf_event_paranoid": f"{level}\n"}
    own = {**files, **paranoid, f"/sys/bus/event_source/devices/{unit}": ""}
    machine = FakeMachine(own, QUIET_FACTS, is_root=is_root)
    machine.answers["status"] = {"transactions": [], "damaged": []}
    return [f"{one.why}: {one.lift}" for one in examine(machine, catalog()).limits if "counters" in one.what]


@pytest.mark.parametrize("unit", ["cpu", "cpu_core", "cpu_atom", "armv8_pmuv3_0", "apple_icestorm_pmu", "riscv_pmu"])
def test_every_processor_unit_has_counters_that_the_kernel_may_keep_from_users(unit: str) -> None:
    lift = "sudo sysctl kernel.perf_event_paranoid=1, or measure as root"
    assert counters(unit) == []
    assert counters(unit, "-1") == []
    assert counters(unit, "3") == [f"kernel.perf_event_paranoid is 3: {lift}"]
    assert counters(unit, "3", is_root=True) == []


def test_metal_without_a_processor_unit_lacks_a_driver() -> None:
    assert (
        counters("software")
        == counters("software", "3")
        == ["no performance monitoring unit found: use a kernel with its driver"]
    )


def test_no_counters_in_a_guest() -> None:
    machine = FakeMachine({"/sys/bus/event_source/devices/software": ""}, {**QUIET_FACTS, "virtualisation.kind": "kvm"})
    machine.answers["status"] = {"transactions": []}
    limits = {limit.what: limit for limit in examine(machine, catalog()).limits}
    assert "pmu=on" in limits["hardware counters (cycles, cache misses)"].lift
    assert "energy" in limits


def test_differences_with_their_setters_fit_80_columns() -> None:
    files: dict[str, str | Reading] = {
        "/proc/sys/vm/swappiness": "10\n",
        "/proc/sys/vm/dirty_ratio": "5\n",
        "/etc/sysctl.d/99-a-rather-long-name-of-a-file-that-somebody-wrote.conf": "vm.swappiness = 10\nvm.x 1\n",
        "/proc/cmdline": "quiet nohz_full=1-3\n",
    }
    examination = look(files, {"services.active": ["tuned"], "virtualisation.kind": "kvm"}, is_root=False)
    assert [(item.address, item.verdict) for item in examination.differ] == [
        ("vm.swappiness", "set"),
        ("vm.dirty_ratio", "unknown-writer"),
    ]
    assert [item.address for item in examination.named] == ["boot:nohz_full"]
    text = doctor_text(examination, width=80)
    assert max(len(line) for line in text.splitlines()) <= 80
    squeezed = "".join(text.split())
    assert "/etc/sysctl.d/99-a-rather-long-name-of-a-file-that-somebody-wrote.conf:1" in squeezed
    assert "conf:2:no=intheline" in squeezed
    assert f"2 of {examination.counts.looked_at} values differ from the kernel default" in " ".join(text.split())


def test_the_counts_wrap_too() -> None:
    examination = look()
    counts = Counts(looked_at=1242, at_default=900, differ=120, default_unknown=711, unreadable=123, absent=9)
    text = doctor_text(msgspec.structs.replace(examination, counts=counts), width=80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "120 of 1242 values" in text


def test_software_disks_are_nobodys_tuning() -> None:
    files: dict[str, str | Reading] = {
        "/sys/block/loop0/queue/scheduler": "[mq-deadline] none\n",
        "/sys/block/sda/queue/scheduler": "[none] mq-deadline\n",
    }
    disks = [{"name": name, "hardware_queues": 8 if name == "loop0" else 1} for name in ("loop0", "sda")]
    found = look(files, {"block.devices": disks})
    assert [item.address for item in found.differ] == ["queue:scheduler@sda"]


def test_json_names_its_schema() -> None:
    data = doctor_json(look({"/proc/sys/vm/swappiness": "10\n"}))
    assert data["schema"] == "ktrial.doctor/1"
    assert data["differ"][0]["address"] == "vm.swappiness"
    assert data["counts"]["differ"] == 1


def test_what_is_a_state_or_of_the_build_is_no_setting_of_the_machine() -> None:
    every = catalog()
    found = {knob.id for knob in _tunable(every)}
    assert "vm.swappiness" in found
    assert {knob.id for knob in every.knobs.values() if knob.kind == "boot"} & found
    assert not _STATE_NOT_SETTING & found
    assert not {knob.id for knob in every.knobs.values() if not knob.files and knob.kind != "boot"} & found
