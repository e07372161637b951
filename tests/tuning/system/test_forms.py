# SPDX-License-Identifier: Apache-2.0
"""Configuration files of plans: whoever reads them at boot finds the keys that were given, and nothing more."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktrial.agent.binary import find_agent
from ktrial.tuning.origin.formats import modprobe_d, sysctl_d, tmpfiles_d, udev, zram_generator

GENERATOR = Path("/usr/lib/systemd/system-generators/zram-generator")
PLACES = {
    "sysctl.d": "/etc/sysctl.d/90-ktrial.conf",
    "tmpfiles.d": "/etc/tmpfiles.d/ktrial.conf",
    "modprobe.d": "/etc/modprobe.d/ktrial.conf",
    "udev": "/etc/udev/rules.d/60-ktrial.rules",
    "zram-generator": "/etc/systemd/zram-generator.conf.d/ktrial.conf",
}
SWAPPINESS = {"path": "/proc/sys/vm/swappiness", "value": "10"}
HUGE_PAGES = {"path": "/sys/kernel/mm/transparent_hugepage/defrag", "value": "defer+madvise"}
LATENCY = {"module": "nvme-core", "parameter": "default_ps_max_latency_us", "value": "0"}
QUEUE = {
    "match": {"ACTION": "add|change", "SUBSYSTEM": "net", "KERNEL": "lo|dummy*"},
    "set": [{"attribute": "tx_queue_len", "value": "1234"}],
}
ZRAM = {"device": "zram0", "zram-size": "min(ram / 2, 4096)", "compression-algorithm": "zstd", "swap-priority": 77}
HOLDS: dict[str, list[dict[str, Any]]] = {
    "sysctl.d": [
        SWAPPINESS,
        {"path": "/proc/sys/net/ipv4/tcp_rmem", "value": "4096 131072 6291456"},
    ],
    "tmpfiles.d": [HUGE_PAGES],
    "modprobe.d": [LATENCY],
    "udev": [QUEUE],
    "zram-generator": [ZRAM],
}


def step(kind: str, *entries: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "file", "path": PLACES[kind], "holds": {kind: list(entries)}, **more}


def machine(folder: Path) -> Path:
    root = folder / "machine"
    files = {
        "proc/sys/vm/swappiness": "60\n",
        "proc/sys/kernel/core_pattern": "core\n",
        "proc/sys/kernel/random/boot_id": "this-boot\n",
        "sys/kernel/mm/transparent_hugepage/defrag": "madvise\n",
        "sys/class/net/lo/tx_queue_len": "1000\n",
        "etc/sysctl.d/10-own.conf": "",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for path in PLACES.values():
        (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    return root


def agent(root: Path, *words: str, plan: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    argv = [str(find_agent()), *words]
    if plan is not None:
        file = root.parent / "plan.json"
        file.write_text(json.dumps(plan))
        argv.append(str(file))
    return subprocess.run([*argv, "--root", str(root)], capture_output=True, text=True, check=False)


def content(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file() and "var" not in path.relative_to(root).parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def put(folder: Path, *kinds: str) -> Path:
    """A machine on which a plan put these files."""
    root = machine(folder)
    steps = [step(kind, *HOLDS[kind]) for kind in kinds]
    done = agent(root, "apply", plan={"schema": "ktrial.plan/2", "title": "files", "steps": steps})
    assert done.returncode == 0, done.stderr
    return root


def file_of(root: Path, kind: str) -> Path:
    return root / PLACES[kind].lstrip("/")


def ran(*argv: str | Path, **environment: str) -> str:
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_plan_puts_them_and_a_revert_takes_them_away(tmp_path: Path) -> None:
    start = content(machine(tmp_path))
    root = put(tmp_path, *PLACES)
    assert set(content(root)) - set(start) == {path.lstrip("/") for path in PLACES.values()}
    done = agent(root, "revert")
    assert done.returncode == 0, done.stderr
    assert content(root) == start


def test_sysctl_reads_the_settings(tmp_path: Path) -> None:
    said = ran("sysctl", "--dry-run", "-p", file_of(put(tmp_path, "sysctl.d"), "sysctl.d"))
    assert said.splitlines() == ["vm.swappiness = 10", "net.ipv4.tcp_rmem = 4096 131072 6291456"]


def test_systemd_tmpfiles_writes_the_values(tmp_path: Path) -> None:
    root = put(tmp_path, "tmpfiles.d")
    before = content(root)
    ran("systemd-tmpfiles", f"--root={root}", "--create", "--boot", file_of(root, "tmpfiles.d"))
    changed = {path: text for path, text in content(root).items() if before.get(path) != text}
    assert {path: text.rstrip() for path, text in changed.items()} == {HUGE_PAGES["path"][1:]: b"defer+madvise"}


def test_modprobe_reads_the_parameters(tmp_path: Path) -> None:
    def said(folder: Path) -> set[str]:
        text = ran("modprobe", "-C", folder, "--showconfig")
        return {line for line in text.splitlines() if line.split(" ")[0] in ("options", "install", "remove", "alias")}

    empty = tmp_path / "empty"
    empty.mkdir()
    folder = file_of(put(tmp_path, "modprobe.d"), "modprobe.d").parent
    assert said(folder) - said(empty) == {"options nvme_core default_ps_max_latency_us=0"}


#: In a network and with a `/sys` of its own, where only this file is read.
_UDEV = """
mount -t sysfs none /sys && mount -t tmpfs none /run
for folder in /etc/udev /usr/lib/udev/rules.d /usr/local/lib/udev/rules.d; do
    [ ! -d "$folder" ] || mount -t tmpfs none "$folder" || exit
done
mkdir -p /etc/udev/rules.d
cp "$1" /etc/udev/rules.d/60-ktrial.rules
! udevadm verify --help > /dev/null 2>&1 || udevadm verify /etc/udev/rules.d/60-ktrial.rules >&2 || exit
udevadm test --action=add /sys/class/net/lo 2>&1
"""


@pytest.mark.root
def test_udev_reads_the_rules(tmp_path: Path) -> None:
    file = file_of(put(tmp_path, "udev"), "udev")
    made = Path("/etc/udev").exists()
    said = ran("unshare", "-m", "-n", "sh", "-c", _UDEV, "sh", file)
    if not made:
        Path("/etc/udev/rules.d").rmdir()
        Path("/etc/udev").rmdir()
    of_rules = [line for line in said.splitlines() if "60-ktrial.rules:" in line]
    (line,) = of_rules
    assert "tx_queue_len" in line
    assert "1234" in line


def test_the_generator_of_zram_makes_the_device(tmp_path: Path) -> None:
    root = put(tmp_path, "zram-generator")
    (root / "proc/meminfo").write_text("MemTotal:       16384000 kB\n")
    (root / "proc/cmdline").write_text("\n")
    units = tmp_path / "units"
    units.mkdir()
    ran(GENERATOR, units, units, units, ZRAM_GENERATOR_ROOT=str(root))
    swap = (units / "dev-zram0.swap").read_text()
    assert "Priority=77" in swap
    assert sorted(path.name for path in units.glob("*.swap")) == ["dev-zram0.swap"]


def test_the_head_reads_the_same(tmp_path: Path) -> None:
    """Its readers were written apart, for files of others."""
    root = put(tmp_path, *PLACES)

    def read(kind: str, parse: Any) -> Any:
        found = parse(file_of(root, kind).read_text(), PLACES[kind])
        assert not found.unread
        return found

    told = [(one.name, one.value) for one in read("sysctl.d", sysctl_d.parse).assignments]
    assert told == [("vm.swappiness", "10"), ("net.ipv4.tcp_rmem", "4096 131072 6291456")]
    told = [(one.name, one.value) for one in read("tmpfiles.d", tmpfiles_d.parse).assignments]
    assert told == [(HUGE_PAGES["path"], HUGE_PAGES["value"])]
    told = [(one.name, one.value) for one in read("modprobe.d", modprobe_d.parse).assignments]
    assert told == [("nvme_core.default_ps_max_latency_us", "0")]
    told = [(one.name, one.value) for one in read("zram-generator", zram_generator.parse).assignments]
    assert len(told) == 3
    (rule,) = read("udev", udev.parse).rules
    assert [(one.key, one.value) for one in rule.matches] == [
        ("ACTION", "add|change"),
        ("SUBSYSTEM", "net"),
        ("KERNEL", "lo|dummy*"),
    ]


RULE = {"match": {"SUBSYSTEM": "net"}, "set": [{"attribute": "tx_queue_len", "value": "1"}]}
HOSTILE: dict[str, tuple[dict[str, Any], int, str]] = {
    "bytes": ({"kind": "file", "path": PLACES["sysctl.d"], "content": "kernel.core_pattern=|/tmp/x\n"}, 2, "`content`"),
    "unit": (
        {
            "kind": "file",
            "path": "/etc/systemd/system/ktrial.service",
            "holds": {"systemd": [{"ExecStart": "/tmp/x"}]},
        },
        2,
        "systemd",
    ),
    "unit-removed": (
        {"kind": "file", "path": "/etc/systemd/system/ktrial-recover.service", "holds": None},
        2,
        "a plan may not write files here",
    ),
    "udev-run": (step("udev", {**RULE, "run": ["/tmp/x"]}), 2, "run"),
    "udev-run-matched": (step("udev", {**RULE, "match": {"SUBSYSTEM": "net", "RUN": "/tmp/x"}}), 2, "RUN"),
    "udev-run-in-a-value": (
        step("udev", {**RULE, "set": [{"attribute": "tx_queue_len", "value": '1", RUN+="/tmp/x'}]}),
        2,
        "RUN",
    ),
    "udev-another-device": (
        step("udev", {**RULE, "set": [{"attribute": "device/reset", "value": "1"}]}),
        4,
        "/sys/class/net/*/device/reset is a path that ktrial never writes",
    ),
    "install": (step("modprobe.d", {"install": "zram", "value": "/tmp/x"}), 2, "install"),
    "install-in-a-value": (step("modprobe.d", {**LATENCY, "value": "0\ninstall zram /tmp/x"}), 2, "install"),
    "firmware": (
        step("modprobe.d", {"module": "firmware_class", "parameter": "path", "value": "/tmp"}),
        4,
        "/sys/module/firmware_class/parameters/path",
    ),
    "core-pattern": (
        step("sysctl.d", {"path": "/proc/sys/kernel/core_pattern", "value": "core"}),
        4,
        "/proc/sys/kernel/core_pattern",
    ),
    "core-pattern-by-tmpfiles": (
        step("tmpfiles.d", {"path": "/proc/sys/kernel/core_pattern", "value": "core"}),
        4,
        "/proc/sys/kernel/core_pattern",
    ),
    "a-file-of-the-system": (step("tmpfiles.d", {"path": "/etc/passwd", "value": "root"}), 4, "/etc/passwd"),
    "zram-generator-set": (step("zram-generator", {**ZRAM, "set!top": "/tmp/x"}), 2, "set!top"),
    "zram-generator-mount": (step("zram-generator", {**ZRAM, "mount-point": "/etc"}), 2, "mount-point"),
    "writable": (step("sysctl.d", SWAPPINESS, mode="0666"), 2, "at most rw-r--r--"),
    "name": (
        {"kind": "file", "path": "/etc/sysctl.d/99-own.conf", "holds": {"sysctl.d": [SWAPPINESS]}},
        4,
        "not a ktrial file",
    ),
    "modprobe": (
        {"kind": "run", "do": ["modprobe", "zram"], "undo": ["modprobe", "-r", "zram"]},
        4,
        "a plan may not run",
    ),
    "enable": (
        {"kind": "run", "do": ["systemctl", "enable", "tuned"], "undo": ["systemctl", "disable", "tuned"]},
        4,
        "a plan may not run",
    ),
    "start-twice": (
        {"kind": "run", "do": ["systemctl", "start", "tuned"], "undo": ["systemctl", "start", "irqbalance"]},
        4,
        "a plan may not run",
    ),
    "shell-of-root": (
        {"kind": "run", "do": ["systemctl", "start", "debug-shell"], "undo": ["systemctl", "stop", "debug-shell"]},
        4,
        "a plan may not start or stop",
    ),
    "swap": ({"kind": "run", "do": ["swapon", "/tmp/x"], "undo": ["swapoff", "/tmp/x"]}, 4, "a plan may not run"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_plan_is_refused_before_anything(tmp_path: Path, name: str) -> None:
    hostile, status, why = HOSTILE[name]
    root = machine(tmp_path)
    start = content(root)
    harmless = {"kind": "write", "path": "/proc/sys/vm/swappiness", "new": "10\n", "verify": "integer"}
    schema = "ktrial.plan/1" if "content" in hostile else "ktrial.plan/2"
    done = agent(root, "apply", plan={"schema": schema, "steps": [harmless, hostile]})
    assert done.returncode == status, done.stdout + done.stderr
    assert why in done.stderr
    assert "step 1" in done.stderr or status == 2, done.stderr
    assert content(root) == start
