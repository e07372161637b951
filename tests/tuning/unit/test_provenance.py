# SPDX-License-Identifier: Apache-2.0
"""Who set a knob, on machines made of dictionaries."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.kit.errors import AgentError
from ktrial.machine.reading import Reading
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.origin.configured import gather
from ktrial.tuning.origin.origin import Origin
from ktrial.tuning.origin.why import origins, vendor_settings
from ktrial.tuning.origin.why_text import origins_text
from tests.support.knobs import KNOBS, catalog, knob
from tests.support.machine import FakeMachine, step_told, transaction_told

SWAPPINESS = "/proc/sys/vm/swappiness"
THP = knob(
    "thp:enabled",
    kind="sysfs",
    places=["/sys/kernel/mm/transparent_hugepage/enabled"],
    value={"type": "choice", "choices": ["always", "madvise", "never"]},
    default="madvise",
)
LATENCY = knob(
    "module:nvme_core.default_ps_max_latency_us",
    kind="module",
    places=["/sys/module/nvme_core/parameters/default_ps_max_latency_us"],
    value={"type": "int"},
    default=100000,
)
ZRAM = knob("zram:comp_algorithm", kind="zram", places=["/sys/block/{zram}/comp_algorithm"], value={"type": "choice"})
EXTRA = {entry.id: entry for entry in (THP, LATENCY, ZRAM)}
RULE = 'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="nvme*", ATTR{queue/scheduler}="none"\n'
DISKS = [
    {"name": "nvme0n1", "rotational": False, "hardware_queues": 8},
    {"name": "sda", "rotational": True, "hardware_queues": 1},
]


def the_catalog() -> Catalog:
    small = catalog()
    return msgspec.structs.replace(small, knobs={**small.knobs, **EXTRA})


def machine(files: dict[str, str | Reading], status: dict[str, Any] | None = None) -> FakeMachine:
    fake = FakeMachine(files, {"block.devices": DISKS, "memory.total": 1 << 33})
    fake.answers["status"] = status or {"transactions": [], "damaged": []}
    return fake


def one(name: str, files: dict[str, str | Reading], status: dict[str, Any] | None = None) -> Origin:
    (origin,) = origins(machine(files, status), the_catalog(), [{**KNOBS, **EXTRA}[name]])
    return origin


def test_the_winning_line_and_what_it_overrode() -> None:
    origin = one(
        "vm.swappiness",
        {
            SWAPPINESS: "10\n",
            "/usr/lib/sysctl.d/50-vendor.conf": "vm.swappiness = 30\n",
            "/etc/sysctl.d/99-mine.conf": "# mine\nvm.swappiness = 20\nvm/swappiness = 10\n",
        },
    )
    assert origin.verdict == "set"
    assert origin.set_by is not None
    assert (origin.set_by.source, origin.set_by.place) == ("sysctl.d", "/etc/sysctl.d/99-mine.conf:3")
    assert [word.place for word in origin.overrode] == [
        "/usr/lib/sysctl.d/50-vendor.conf:1",
        "/etc/sysctl.d/99-mine.conf:2",
    ]
    assert (origin.value, origin.default, origin.differs) == ("10", "60", True)


def test_nobody_and_the_kernels_default() -> None:
    origin = one("vm.swappiness", {SWAPPINESS: "60\n"})
    assert (origin.verdict, origin.set_by, origin.differs) == ("kernel-default", None, False)


def test_a_value_that_no_file_names_has_an_unknown_writer() -> None:
    origin = one("vm.swappiness", {SWAPPINESS: "1\n", "/etc/sysctl.d/a.conf": "vm.swappiness = 10\n"})
    assert (origin.verdict, origin.differs) == ("unknown-writer", True)
    assert [word.value for word in origin.not_in_force] == ["10"]


def test_a_file_that_names_the_default_value_is_named() -> None:
    origin = one("vm.swappiness", {SWAPPINESS: "60\n", "/etc/sysctl.d/a.conf": "vm.swappiness=60\n"})
    assert (origin.verdict, origin.differs) == ("set", False)


def test_an_unreadable_file_is_no_verdict() -> None:
    origin = one("vm.swappiness", {SWAPPINESS: Reading(unreadable="permission denied")})
    assert (origin.verdict, origin.value, origin.differs) == ("unreadable", None, False)
    assert origin.why is not None
    assert "permission denied" in origin.why


def test_ktrial_has_the_last_word() -> None:
    step = step_told(path=SWAPPINESS, knob="vm.swappiness", old="60\n", new="10\n")
    status = {
        "transactions": [
            transaction_told(transaction=3, title="vm.swappiness=10", steps=[step]),
            transaction_told(transaction=2, title="old", state="reverted", steps=[{**step, "new": "5\n"}]),
            transaction_told(transaction=1, title="old", this_boot=False, steps=[{**step, "new": "6\n"}]),
        ]
    }
    files: dict[str, str | Reading] = {SWAPPINESS: "10\n", "/etc/sysctl.d/a.conf": "vm.swappiness = 10\n"}
    origin = one("vm.swappiness", files, status)
    assert origin.set_by is not None
    assert (origin.set_by.source, origin.set_by.place) == ("ktrial", "transaction 3: vm.swappiness=10")
    assert [word.source for word in origin.overrode] == ["sysctl.d"]


def test_a_journal_that_cannot_be_read_is_said() -> None:
    class Locked(FakeMachine):
        def request(self, do: str, **fields: Any) -> dict[str, Any]:
            raise AgentError("privilege", "the journal needs root")

    claims = gather(Locked({}))
    assert claims.untold == ("what ktrial itself changed: the journal needs root",)
    (told,) = gather(Locked({}, is_root=False)).untold
    assert "sudo ./ktrial" in told


def test_an_unknown_writer_may_be_what_was_not_looked_at() -> None:
    origin = one("vm.swappiness", {SWAPPINESS: "10\n"})
    assert "set by        unknown writer: no file names this value\n" in origins_text([origin], (), width=80)
    in_doubt = " ".join(origins_text([origin], ("the journal",), width=80).split())
    assert "unknown writer: no file names this value; some sources were not examined" in in_doubt


def test_udev_rules_are_matched_per_device() -> None:
    files: dict[str, str | Reading] = {
        "/sys/block/nvme0n1/queue/scheduler": "[none] mq-deadline\n",
        "/sys/block/sda/queue/scheduler": "[bfq] mq-deadline none\n",
        "/etc/udev/rules.d/60-disk.rules": "# disks\n" + RULE,
    }
    disk, drive = origins(machine(files), the_catalog(), [KNOBS["queue:scheduler"]])
    assert disk.set_by is not None
    assert (disk.address, disk.set_by.place) == ("queue:scheduler@nvme0n1", "/etc/udev/rules.d/60-disk.rules:2")
    assert disk.set_by.conditions[2] == 'KERNEL=="nvme*"'
    assert (drive.verdict, drive.default, drive.not_in_force) == ("unknown-writer", "mq-deadline", ())


def test_a_udev_file_of_the_same_name_hides_the_vendors() -> None:
    files: dict[str, str | Reading] = {
        SWAPPINESS: "150\n",
        "/usr/lib/udev/rules.d/30-zram.rules": 'KERNEL=="zram0", SYSCTL{vm.swappiness}="150"\n',
    }
    origin = one("vm.swappiness", files)
    assert origin.set_by is not None
    assert origin.set_by.source == "udev"
    assert one("vm.swappiness", {**files, "/etc/udev/rules.d/30-zram.rules": "# off\n"}).verdict == "unknown-writer"


@pytest.mark.parametrize(
    "name,files,place",
    [
        (
            "thp:enabled",
            {
                "/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
                "/proc/cmdline": "quiet transparent_hugepage=never\n",
            },
            ("command-line", "/proc/cmdline"),
        ),
        (
            "thp:enabled",
            {
                "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
                "/proc/cmdline": "transparent_hugepage=never\n",
                "/etc/tmpfiles.d/thp.conf": "w /sys/kernel/mm/transparent_hugepage/enabled - - - - always\n",
            },
            ("tmpfiles.d", "/etc/tmpfiles.d/thp.conf:1"),
        ),
        (
            "module:nvme_core.default_ps_max_latency_us",
            {
                "/sys/module/nvme_core/parameters/default_ps_max_latency_us": "0\n",
                "/etc/modprobe.d/nvme.conf": "options nvme-core default_ps_max_latency_us=0\n",
            },
            ("modprobe.d", "/etc/modprobe.d/nvme.conf:1"),
        ),
        (
            "module:nvme_core.default_ps_max_latency_us",
            {
                "/sys/module/nvme_core/parameters/default_ps_max_latency_us": "5\n",
                "/proc/cmdline": "nvme-core.default_ps_max_latency_us=0 nvme_core.default_ps_max_latency_us=5\n",
            },
            ("command-line", "/proc/cmdline"),
        ),
        (
            "zram:comp_algorithm",
            {
                "/sys/block/zram0/comp_algorithm": "lzo [zstd] lz4\n",
                "/etc/systemd/zram-generator.conf": "[zram0]\ncompression-algorithm = zstd\n",
            },
            ("zram-generator", "/etc/systemd/zram-generator.conf:2"),
        ),
        (
            "vm.swappiness",
            {
                SWAPPINESS: "70\n",
                "/etc/tuned/active_profile": "desk\n",
                "/etc/tuned/profiles/desk/tuned.conf": "[main]\ninclude=base\n[sysctl]\nvm.swappiness=>50\n",
                "/usr/lib/tuned/profiles/base/tuned.conf": "[sysctl]\nvm.swappiness=10\n",
            },
            ("tuned", "/etc/tuned/profiles/desk/tuned.conf:4"),
        ),
        (
            "boot:nohz_full",
            {"/proc/cmdline": "nohz-full=1-3\n"},
            ("command-line", "/proc/cmdline"),
        ),
    ],
)
def test_other_sources(name: str, files: dict[str, str | Reading], place: tuple[str, str]) -> None:
    origin = one(name, files)
    assert origin.verdict == "set", origin
    assert origin.set_by is not None
    assert (origin.set_by.source, origin.set_by.place) == place


@pytest.mark.parametrize("option,overrode", [("", ["10"]), ("replace=1\n", [])])
def test_a_tuned_section_may_replace_that_of_its_parent(option: str, overrode: list[str]) -> None:
    files: dict[str, str | Reading] = {
        SWAPPINESS: "50\n",
        "/etc/tuned/active_profile": "desk\n",
        "/etc/tuned/desk/tuned.conf": f"[main]\ninclude=base\n[sysctl]\n{option}vm.swappiness=50\n",
        "/usr/lib/tuned/base/tuned.conf": "[sysctl]\nvm.swappiness=10\n",
    }
    assert [word.value for word in one("vm.swappiness", files).overrode] == overrode


@pytest.mark.parametrize(
    "settings, folder, last",
    [
        ("", "/etc/sysctl.d", "sysctl.d"),
        ("reapply_sysctl = 1\n", "/etc/sysctl.d", "sysctl.d"),
        ("# reapply_sysctl = 1\nreapply_sysctl = 0\n", "/etc/sysctl.d", "tuned"),
        ("reapply_sysctl = 1\n", "/usr/lib/sysctl.d", "tuned"),
    ],
)
def test_tuned_applies_the_files_of_etc_again(settings: str, folder: str, last: str) -> None:
    files: dict[str, str | Reading] = {
        SWAPPINESS: "10\n",
        "/etc/tuned/active_profile": "desk\n",
        "/etc/tuned/tuned-main.conf": settings,
        "/etc/tuned/desk/tuned.conf": "[sysctl]\nvm.swappiness=10\n",
        f"{folder}/50-own.conf": "vm.swappiness = 10\n",
    }
    set_by = one("vm.swappiness", files).set_by
    assert set_by is not None
    assert set_by.source == last


def test_what_is_not_there_is_absent() -> None:
    assert one("vm.swappiness", {}).verdict == "absent"
    assert one("boot:nohz_full", {"/proc/cmdline": "quiet\n"}).verdict == "kernel-default"


def test_a_missing_tuned_profile_and_lines_in_doubt_are_named() -> None:
    files = {"/etc/tuned/active_profile": "gone\n", "/etc/sysctl.d/a.conf": "vm.swappiness 10\nvm.x = 1\n"}
    found = {(item.file, item.line_number) for item in gather(machine({**files})).unread}
    assert found == {("/etc/tuned/active_profile", 1), ("/etc/sysctl.d/a.conf", 1)}


def test_what_the_vendor_alone_would_set() -> None:
    files: dict[str, str | Reading] = {
        SWAPPINESS: "10\n",
        "/proc/sys/vm/dirty_ratio": "20\n",
        "/sys/block/nvme0n1/queue/scheduler": "[mq-deadline] none\n",
        "/usr/lib/sysctl.d/50-vendor.conf": "vm.swappiness = 30\nvm.dirty_ratio = a lot\n",
        "/etc/sysctl.d/99-mine.conf": "vm.swappiness = 10\n",
        "/usr/lib/udev/rules.d/60-disk.rules": RULE,
    }
    settings = vendor_settings(machine(files), the_catalog())
    assert [(item.knob, item.value, item.why) for item in settings] == [
        ("vm.swappiness", "30", "/usr/lib/sysctl.d/50-vendor.conf:1"),
        ("queue:scheduler@nvme0n1", "none", "/usr/lib/udev/rules.d/60-disk.rules:1"),
    ]


@pytest.mark.parametrize(
    "shown,configuration,verdict,source",
    [
        ("always [madvise] never", {"TRANSPARENT_HUGEPAGE_MADVISE": "y"}, "kernel-default", None),
        ("[always] madvise never", {"TRANSPARENT_HUGEPAGE_ALWAYS": "y"}, "set", "kernel-build"),
        ("[always] madvise never", {"TRANSPARENT_HUGEPAGE_ALWAYS": "n"}, "unknown-writer", None),
        ("always madvise [never]", {"TRANSPARENT_HUGEPAGE_ALWAYS": "y"}, "unknown-writer", None),
        ("[always] madvise never", None, "unknown-writer", None),
    ],
)
def test_the_kernels_configuration_may_be_the_setter(
    shown: str, configuration: dict[str, str] | None, verdict: str, source: str | None
) -> None:
    fake = FakeMachine({"/sys/kernel/mm/transparent_hugepage/enabled": shown + "\n"}, {"kernel.config": configuration})
    fake.answers["status"] = {"transactions": []}
    (origin,) = origins(fake, the_catalog(), [THP])
    assert (origin.verdict, origin.set_by.source if origin.set_by else None) == (verdict, source)


def test_sysctl_conf_says_when_it_is_read() -> None:
    origin = one("vm.swappiness", {SWAPPINESS: "10\n", "/etc/sysctl.conf": "vm.swappiness=10\n"})
    assert origin.set_by is not None
    assert origin.set_by.place == "/etc/sysctl.conf:1"
    assert origin.why is not None
    assert "read last" in origin.why


def test_a_default_that_is_not_known_is_no_proof_of_a_writer() -> None:
    unknown = knob("vm.x", default_note="depends on memory")
    files: dict[str, str | Reading] = {"/proc/sys/vm/x": "5\n", "/etc/sysctl.d/a.conf": "vm.x = 7\n"}
    (origin,) = origins(machine(files), the_catalog(), [unknown])
    assert (origin.verdict, [word.value for word in origin.not_in_force]) == ("nobody-named", ["7"])
