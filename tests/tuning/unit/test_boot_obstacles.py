# SPDX-License-Identifier: Apache-2.0
"""What speaks against a trial boot, one reason at a time, on machines on which nothing else does."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import Refused
from ktrial.machine.reading import Reading
from ktrial.tuning.boots.entry import BootGrounds, plan_boot
from ktrial.tuning.boots.gather import (
    FACTS,
    gather_kernel,
    gather_scene,
    hardware_watchdog,
    module_names,
    remote_users,
    root_drivers,
)
from ktrial.tuning.boots.kernel_header import read_kernel_header
from ktrial.tuning.boots.kernel_obstacles import release_of, unbuilt_modules
from ktrial.tuning.boots.refusals import asks_passphrase, find_obstacles, other_kernel_obstacles, refuse
from ktrial.tuning.boots.scene import BootScene, GrubScene, KernelScene, Obstacle, SystemdBootScene
from ktrial.tuning.boots.systemd_boot_default import default_would_change
from ktrial.tuning.lasting.loaders import NoLoader, read_variable
from tests.support.machine import FakeMachine
from tests.tuning.unit.test_boot_entry import debian, fedora, systemd_boot

ENVIRONMENT = b"# GRUB Environment Block\n".ljust(1024, b"#")
MOUNTS = "/dev/sda2 / ext4 rw,relatime 0 0\nefivarfs /sys/firmware/efi/efivars efivarfs rw 0 0\n"
DISK = {"mount": "/", "source": "/dev/sda2", "kind": "ext4", "options": ["rw"], "size_bytes": 1 << 34}
LAYERS = [{"name": "sda2", "kind": "partition"}, {"name": "sda", "kind": "disk"}]
ROOT = {**DISK, "used_bytes": 1 << 30, "stack": LAYERS}


def disk(**more: Any) -> tuple[dict[str, Any], ...]:
    return ({**ROOT, **more},)


def with_layer(kind: str) -> tuple[dict[str, Any], ...]:
    return disk(stack=[{"name": "dm-0", "kind": kind}, *LAYERS])


def grub_scene(**more: Any) -> BootScene:
    own = {
        "loader": "grub",
        "grounds": debian(),
        "grub": GrubScene(folder="/boot/grub", environment=ENVIRONMENT),
        "filesystems": (ROOT,),
        "mounts": MOUNTS,
        "fstab": "UUID=1 / ext4 defaults 0 1\n",
        "command_line": debian().command_line,
        "watchdog": "iTCO_wdt",
    }
    return BootScene(**{**own, **more})


def systemd_scene(**more: Any) -> BootScene:
    own = {
        "loader": "systemd-boot",
        "grounds": systemd_boot(),
        "grub": None,
        "systemd_boot": SystemdBootScene(folder="/efi/loader/entries", version=252),
    }
    return grub_scene(**{**own, **more})


def in_grub_config(old: str, new: str) -> BootGrounds:
    text = debian().grub_text
    assert old in text
    return debian(grub_text=text.replace(old, new))


def environment(line: bytes) -> GrubScene:
    return GrubScene(folder="/boot/grub", environment=(b"# GRUB Environment Block\n" + line).ljust(1024, b"#"))


def test_nothing_speaks_against_a_plain_machine() -> None:
    assert find_obstacles(grub_scene()) == []
    assert find_obstacles(systemd_scene()) == []
    xfs = grub_scene(filesystems=disk(kind="xfs"), grub=environment(b"saved_entry=0\n"))
    assert find_obstacles(xfs) == []


CASES: list[tuple[BootScene, str, str, str | None]] = [
    (grub_scene(loader=NoLoader("cannot find a boot loader")), "no-loader", "cannot find a boot loader", None),
    (grub_scene(loader=NoLoader("two", hint="--loader grub")), "no-loader", "--loader grub", None),
    (grub_scene(loader=NoLoader("it", "rpm-ostree")), "image-based", "--to rpm-ostree", None),
    (grub_scene(loader=NoLoader("it", "bootc-loader-entries")), "image-based", "--to bootc", None),
    (grub_scene(loader=NoLoader("it", "uki-addon")), "unified-kernel", "--to uki-addon", None),
    (grub_scene(loader="limine"), "loader", "an entry only once with limine", None),
    (grub_scene(container="docker"), "container", "a container (docker)", None),
    (grub_scene(has_systemd=False), "no-systemd", "systemd does not run", None),
    (grub_scene(unreadable=("/boot/grub/grub.cfg",)), "unreadable", "/boot/grub/grub.cfg", None),
    (grub_scene(fstab="UUID=2 /boot/ ext4 noauto 0 2\n"), "not-mounted", "/boot/ is in /etc/fstab", None),
    (systemd_scene(fstab="UUID=2 /efi vfat - 0 2\n"), "not-mounted", "`mount /efi`", None),
    (grub_scene(mounts=MOUNTS + "/dev/sda1 /boot ext4 ro 0 0\n"), "read-only", "/boot is mounted read-only", None),
    (grub_scene(filesystems=disk(used_bytes=(1 << 34) - 4096)), "full", "/ has only 4 KiB free", None),
    (systemd_scene(filesystems=disk(used_bytes=1 << 34)), "full", "0 KiB", None),
    (grub_scene(filesystems=with_layer("lvm")), "no-one-shot", "on LVM", None),
    (grub_scene(filesystems=with_layer("raid")), "no-one-shot", "on RAID", None),
    (grub_scene(filesystems=with_layer("multipath")), "no-one-shot", "multipath", None),
    (grub_scene(filesystems=with_layer("device-mapper")), "no-one-shot", "device mapper", None),
    (grub_scene(filesystems=disk(kind="btrfs")), "no-one-shot", "on btrfs", None),
    (grub_scene(filesystems=disk(kind="zfs")), "no-one-shot", "on zfs", None),
    (grub_scene(filesystems=disk(kind="f2fs")), "no-one-shot", "on f2fs", None),
    (grub_scene(filesystems=disk(options=["rw", "data=journal"])), "no-one-shot", "data=journal", None),
    (grub_scene(filesystems=()), "no-one-shot", "is unknown", None),
    (grub_scene(grub=GrubScene(folder="/boot/grub")), "no-one-shot", "/boot/grub/grubenv is missing", None),
    (grub_scene(grub=GrubScene(folder="/boot/grub", environment=b"x" * 1024)), "no-one-shot", "damaged", None),
    (grub_scene(grub=GrubScene(folder="/boot/grub", environment=ENVIRONMENT[:-1])), "no-one-shot", "damaged", None),
    (grub_scene(grub=environment(b"env_block=512+1\n")), "no-one-shot", "env_block", None),
    (grub_scene(grub=environment(b"boot_counter=2\n")), "no-one-shot", "counts boots itself", None),
    (grub_scene(grub=environment(b"next_entry=2\n")), "already-armed", "GRUB will boot '2' next", None),
    (grub_scene(grounds=in_grub_config("save_env next_entry", "true")), "no-one-shot", "not read next_entry", None),
    (grub_scene(grounds=in_grub_config("/custom.cfg", "/other.cfg")), "menu", "custom.cfg", None),
    (grub_scene(grounds=in_grub_config("set linux_gfx_mode=", 'set superusers="a"')), "menu", "superusers", None),
    (grub_scene(grounds=in_grub_config("set timeout=5", "set check_signatures=enforce")), "menu", "signed", None),
    (grub_scene(grounds=in_grub_config("set timeout=5", "set timeout=-1")), "menu", "waits for a key", "--anyway"),
    (
        grub_scene(grub=GrubScene(folder="/boot/grub", environment=ENVIRONMENT, custom="menuentry x {}")),
        "foreign-file",
        "ktrial's entry would replace /boot/grub/custom.cfg",
        None,
    ),
    (
        systemd_scene(mounts=MOUNTS.replace("efivarfs rw", "efivarfs ro")),
        "no-one-shot",
        "cannot write the firmware",
        None,
    ),
    (systemd_scene(mounts=MOUNTS.splitlines()[0]), "no-one-shot", "cannot write the firmware", None),
    (
        systemd_scene(
            systemd_boot=SystemdBootScene(
                folder="/efi/loader/entries", version=252, loader_conf="timeout 3\ntimeout menu-force\n"
            )
        ),
        "menu",
        "waits for a key",
        "--anyway",
    ),
    (
        systemd_scene(systemd_boot=SystemdBootScene(folder="/efi/loader/entries", version=252, one_shot="a.conf")),
        "already-armed",
        "'a.conf'",
        None,
    ),
    (
        systemd_scene(grounds=systemd_boot(entries={"/efi/loader/entries/arch.conf": "linux /a\n"})),
        "default-changes",
        "`bootctl set-default 0123-6.1.conf`",
        None,
    ),
    (
        systemd_scene(
            grounds=systemd_boot(
                entries={**systemd_boot().entries, "/efi/loader/entries/ktrial-trial.conf": "linux /mine\n"}
            )
        ),
        "foreign-file",
        "ktrial's entry would replace /efi/loader/entries/ktrial-trial.conf",
        None,
    ),
    (systemd_scene(filesystems=with_layer("luks")), "encrypted-disk", "passphrase", "--anyway"),
    (grub_scene(power="battery"), "battery", "battery", "--anyway"),
    (grub_scene(remote_users=("ann", "bob")), "users", "ann, bob", "--anyway"),
]


@pytest.mark.parametrize("scene, kind, text, needs", CASES)
def test_one_reason_is_named_with_a_way_out(scene: BootScene, kind: str, text: str, needs: str | None) -> None:
    (found,) = find_obstacles(scene)
    assert (found.kind, found.needs, found.is_note) == (kind, needs, False)
    assert text in f"{found.message} {found.hint}"
    assert found.hint
    with pytest.raises(Refused, match="cannot prepare a boot: ") as error:
        refuse([found], ())
    assert error.value.hint == found.hint
    if needs is not None:
        refuse([found], {needs})
    else:
        with pytest.raises(Refused):
            refuse([found], {"--anyway", "--yes-kernel"})


def test_final_reasons_come_first_and_notes_last() -> None:
    scene = grub_scene(power="battery", watchdog=None, container="lxc", command_line="ro nowatchdog")
    found = find_obstacles(scene)
    assert [one.kind for one in found] == ["container", "battery", "no-watchdog", "no-lockup-detector"]
    assert [one.is_final for one in found] == [True, False, False, False]
    refuse([one for one in found if one.is_note], ())


def test_files_of_ktrial_and_mounted_partitions_do_not_stand_in_the_way() -> None:
    mine = GrubScene(folder="/boot/grub", environment=ENVIRONMENT, custom="# ktrial writes this file\n")
    mounts = MOUNTS + "systemd-1 /boot autofs rw 0 0\n/dev/sda3 /efi vfat rw 0 0\n"
    assert find_obstacles(grub_scene(grub=mine, mounts=mounts, fstab="a /boot ext4 x 0 0\nb /efi vfat x\n")) == []
    # Only the file system that holds GRUB's folder counts.
    boot = {**ROOT, "mount": "/boot"}
    assert find_obstacles(grub_scene(filesystems=(*disk(kind="btrfs"), boot))) == []


@pytest.mark.parametrize(
    "scene, step",
    [
        (grub_scene(filesystems=disk(kind="btrfs")), "a partition of its own with ext4"),
        (grub_scene(filesystems=disk(options=["rw", "data=journal"])), "without data=journal"),
        (grub_scene(grub=environment(b"boot_counter=2\n")), "/boot/grub/grubenv unset boot_counter"),
        (systemd_scene(mounts=MOUNTS.splitlines()[0]), "mount -t efivarfs efivarfs /sys/firmware/efi/efivars"),
        (systemd_scene(mounts=MOUNTS.replace("efivarfs rw", "efivarfs ro")), "mount -o remount,rw /sys/firmware"),
    ],
)
def test_the_next_step_fits_the_reason(scene: BootScene, step: str) -> None:
    (found,) = find_obstacles(scene)
    assert step in (found.hint or "")


@pytest.mark.parametrize(
    "crypttab, line, asks",
    [
        (None, "", True),
        ("", "", True),
        ("# x\nroot UUID=1 none luks\n", "", True),
        ("root UUID=1\n", "", True),
        ("root UUID=1 none luks,tpm2-device=auto\n", "", False),
        ("root UUID=1 none luks,tpm2-device=auto,tpm2-pin=yes\n", "", True),
        ("root UUID=1 /etc/key luks\nswap /dev/sda3 /dev/urandom swap\n", "", False),
        ("root UUID=1 none luks,keyscript=/bin/x\nhome UUID=2 none luks,noauto\n", "", False),
        ("root UUID=1 /etc/key luks\nhome UUID=2 - luks\n", "", True),
        (None, "rd.luks.name=1=root rd.luks.options=1=tpm2-device=auto", False),
        (None, "rd.luks.name=1=root rd.luks.key=/key", False),
    ],
)
def test_a_passphrase_is_expected_unless_something_else_opens_the_disk(
    crypttab: str | None, line: str, asks: bool
) -> None:
    assert asks_passphrase(with_layer("luks"), crypttab, line) is asks
    assert not asks_passphrase(disk(), crypttab, line)
    assert asks_passphrase((), crypttab, f"{line} rd.luks.uuid=1") is asks


FOLDER = "/efi/loader/entries"


@pytest.mark.parametrize(
    "entries, conf, default, changes",
    [
        ({"a.conf": "sort-key debian\n"}, "", None, False),
        ({"a.conf": "linux /a\n"}, "", None, True),
        ({"zz.conf": "linux /a\n"}, "", None, False),
        ({"0a.conf": "linux /a\n"}, "", None, False),
        ({"ba.conf": "linux /a\n"}, "default ba.conf\n", None, False),
        ({"ba+2.conf": "linux /a\n"}, "default b*\n", None, False),
        ({"ba.conf": "linux /a\n"}, "default *\n", None, True),
        ({"ba.conf": "linux /a\n"}, "default gone.conf\n", None, True),
        ({"ba.conf": "linux /a\n"}, "default @saved\n", None, False),
        ({"ba.conf": "linux /a\n"}, "", "ba.conf", False),
        ({"a+0-3.conf": "sort-key debian\n"}, "", None, True),
        ({}, "", None, True),
        ({"ktrial-trial.conf": "sort-key a\n"}, "", None, True),
    ],
)
def test_an_entry_of_ktrial_never_becomes_the_default(
    entries: dict[str, str], conf: str, default: str | None, changes: bool
) -> None:
    scene = SystemdBootScene(folder=FOLDER, version=252, loader_conf=conf, default=default)
    files = {f"{FOLDER}/{name}": text for name, text in entries.items()}
    assert default_would_change(files, scene) is changes
    for version in (249, None):
        scene = msgspec.structs.replace(scene, version=version)
        assert default_would_change(files, scene) is (changes or "sort-key" in str(entries))


def bzimage(release: bytes = b"7.0 (me@here) #1", *, is_64_bit: bool = True, certificate: int | None = 8) -> bytes:
    data = bytearray(4096)
    struct.pack_into("<4sH", data, 0x202, b"HdrS", 0x020F)
    struct.pack_into("<H", data, 0x236, is_64_bit)
    struct.pack_into("<H", data, 0x20E, 0x400)
    data[0x600 : 0x600 + len(release)] = release
    if certificate is not None:
        data[:2] = b"MZ"
        struct.pack_into("<I", data, 0x3C, 0x80)
        struct.pack_into("<4sH", data, 0x80, b"PE\0\0", 0x8664)
        struct.pack_into("<H", data, 0x98, 0x20B)
        struct.pack_into("<I", data, 0x98 + 108, 6)
        struct.pack_into("<II", data, 0x98 + 112 + 32, 4096, certificate)
    return bytes(data)


def flat() -> bytes:
    return b"\0" * 56 + b"ARM\x64" + b"\0" * 100


def zboot() -> bytes:
    data = bytearray(256)
    data[:8] = b"MZ\0\0zimg"
    struct.pack_into("<I", data, 0x3C, 0x80)
    struct.pack_into("<4sH", data, 0x80, b"PE\0\0", 0xAA64)
    return bytes(data)


@pytest.mark.parametrize(
    "data, architecture, release, is_signed",
    [
        (bzimage(), "x86_64", "7.0", True),
        (bzimage(certificate=0), "x86_64", "7.0", False),
        (bzimage(certificate=None), "x86_64", "7.0", False),
        (bzimage(b"", is_64_bit=False), "i386", None, True),
        (flat(), "aarch64", None, False),
        (zlib.compressobj(wbits=31).compress(flat()) + b"", None, None, False),
        (b"\x1f\x8b", None, None, False),
        (zboot(), "aarch64", None, False),
        (b"\x7fELF".ljust(4096, b"\0"), None, None, False),
        (b"#!/bin/sh\n", None, None, False),
        (b"", None, None, False),
    ],
)
def test_the_beginning_of_a_kernel(data: bytes, architecture: str | None, release: str | None, is_signed: bool) -> None:
    found = read_kernel_header(data)
    if architecture is None:
        assert found is None
    else:
        assert found is not None
        assert (found.architecture, found.release, found.is_signed) == (architecture, release, is_signed)


def test_a_packed_kernel_is_not_signed() -> None:
    found = read_kernel_header(gzip.compress(flat()))
    assert found is not None
    assert (found.architecture, found.is_signed) == ("aarch64", False)
    assert read_kernel_header(gzip.compress(gzip.compress(flat()))) is None


def test_a_program_without_a_directory_of_certificates_is_not_signed() -> None:
    data = bytearray(bzimage())
    struct.pack_into("<I", data, 0x98 + 108, 4)
    found = read_kernel_header(bytes(data))
    assert found is not None
    assert not found.is_signed


@given(st.binary(max_size=300) | st.binary(max_size=64).map(lambda data: bzimage() + data), st.integers(0, 4096))
def test_any_bytes_are_read(data: bytes, size: int) -> None:
    for part in (data, data[:size]):
        found = read_kernel_header(part)
        assert found is None or found.architecture in {"x86_64", "i386", "aarch64", "riscv64", "loongarch64"}


PLAN = plan_boot(debian(), (), kernel="/boot/vmlinuz-6.1.0-12-amd64")
NO_IMAGE = plan_boot(debian(), (), kernel="/boot/vmlinuz-7.0")
RUNNING = "6.1.0-13-amd64"
OTHER = "6.1.0-12-amd64"
BUILT = tuple(
    f"/var/lib/dkms/{name}/1/{release}/x86_64/module/{name}.ko.xz"
    for name, release in (("nvidia", RUNNING), ("zfs", RUNNING), ("zfs", OTHER))
)


def kernel(**more: Any) -> KernelScene:
    own = {
        "head": bzimage(OTHER.encode()),
        "release": OTHER,
        "architecture": "x86_64",
        "has_modules": True,
        "modules": frozenset(("ext4", "sd_mod", "ahci")),
        "drivers": ("ext4", "sd_mod", "ahci"),
        "dkms": (),
        "is_packaged": True,
        "is_secure": False,
    }
    return KernelScene(**{**own, **more})


@pytest.mark.parametrize(
    "scene, plan, kind, text, needs",
    [
        (kernel(head=None), PLAN, "unreadable", "cannot read /boot/vmlinuz-6.1.0-12-amd64", None),
        (kernel(head=b"text"), PLAN, "not-a-kernel", "is not a kernel", None),
        (kernel(architecture="aarch64"), PLAN, "architecture", "a kernel for x86_64, but this machine runs", None),
        (kernel(head=bzimage(certificate=0), is_secure=True), PLAN, "unsigned", "is not signed", None),
        (kernel(is_packaged=False), PLAN, "not-packaged", "no package owns", "--yes-kernel"),
        (kernel(release="7.0"), NO_IMAGE, "no-initramfs", "update-initramfs -c -k 7.0", None),
        (kernel(has_modules=False), PLAN, "no-modules", f"/lib/modules/{OTHER}/modules.dep is missing", None),
        (kernel(release=None), PLAN, "no-modules", "neither the file nor the file's name states a release", None),
        (kernel(drivers=("nvme", "ext4")), PLAN, "no-driver", "the root file system here: nvme", None),
        (kernel(dkms=BUILT), PLAN, "dkms", f"DKMS has built nvidia for {RUNNING}", None),
    ],
)
def test_what_speaks_against_a_kernel(scene: KernelScene, plan: Any, kind: str, text: str, needs: str | None) -> None:
    (found,) = other_kernel_obstacles(plan, scene, grub_scene())
    assert (found.kind, found.needs) == (kind, needs)
    assert text in f"{found.message} {found.hint}"


def test_nothing_speaks_against_a_packaged_kernel_and_the_running_one() -> None:
    assert other_kernel_obstacles(PLAN, kernel(is_secure=True), grub_scene()) == []
    assert other_kernel_obstacles(PLAN, kernel(modules=None, drivers=("x",)), grub_scene()) == []
    assert other_kernel_obstacles(PLAN, kernel(head=bzimage(b"")), grub_scene()) == []
    words = msgspec.structs.replace(PLAN, is_other_kernel=False)
    assert other_kernel_obstacles(words, kernel(head=b"", is_packaged=False), grub_scene()) == []
    assert release_of(PLAN, bzimage(b"9.9 (x)")) == "9.9"
    assert release_of(PLAN, None) == OTHER


def test_modules_of_dkms() -> None:
    assert unbuilt_modules(BUILT, RUNNING, OTHER) == ("nvidia",)
    assert unbuilt_modules([*BUILT, "/var/lib/dkms/x", "/var/lib/dkms/a/b/c/d/source/e"], "6.5", OTHER) == ()


def test_drivers_and_modules_by_their_names() -> None:
    text = "kernel/fs/ext4/ext4.ko.xz: kernel/lib/crc16.ko.xz\nkernel/drivers/md/dm-mod.ko\nextra/a.ko.zst:\n"
    assert module_names(text) == {"ext4", "dm_mod", "a"}
    assert root_drivers((ROOT,), ["ahci", "ahci"]) == ("ext4", "sd_mod", "ahci")
    assert root_drivers((ROOT,), ["ahci", "usb-storage"]) == ("ext4", "sd_mod")
    layers = [{"name": "dm-0", "kind": "luks"}, {"name": "nvme0n1p2", "kind": "partition"}]
    mixed = ({**ROOT, "kind": "btrfs", "stack": [*layers, {"name": "nvme0n1", "kind": "disk"}]},)
    assert root_drivers(mixed, ["ahci"]) == ("btrfs", "dm_crypt", "nvme")
    assert root_drivers((), []) == ()


def test_watchdogs_and_users() -> None:
    assert hardware_watchdog(["Software Watchdog\n", "iTCO_wdt\n"]) == "iTCO_wdt"
    assert hardware_watchdog(["Software Watchdog"]) is None

    def login(**fields: str) -> str:
        own = {"USER": "ann", "REMOTE": "1", "STATE": "active", "CLASS": "user", **fields}
        return "# This is private data.\n" + "".join(f"{name}={value}\n" for name, value in own.items())

    assert remote_users([login(), login(), login(USER="bob")], "bob") == ("ann",)
    for other in ({"REMOTE": "0"}, {"STATE": "closing"}, {"CLASS": "manager"}):
        assert remote_users([login(**other)], None) == ()
    assert remote_users([""], None) == ()


def files(grounds: BootGrounds, **more: str | Reading) -> dict[str, str | Reading]:
    return {
        "/proc/cmdline": grounds.command_line,
        "/proc/self/mounts": MOUNTS,
        "/etc/fstab": "",
        "/run/systemd/system": "",
        "/sys/class/watchdog/watchdog0/identity": "iTCO_wdt\n",
        "/run/systemd/sessions/1": "USER=ann\nREMOTE=1\nSTATE=active\nCLASS=user\n",
        "/run/systemd/sessions/1.ref": "",
        **dict.fromkeys(grounds.files, ""),
        **grounds.entries,
        **({grounds.grub_path: grounds.grub_text} if grounds.grub_path else {}),
        **more,
    }


def variable(text: str) -> Reading:
    return Reading(data=b"\x06\0\0\0" + f"{text}\0".encode("utf-16-le"), mode=0o644)


VARIABLES = "/sys/firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
KNOWN = {"kernel.release": RUNNING, "cpu.architecture": "x86_64", "filesystems": [ROOT], "power.source": "mains"}


def on(machine: FakeMachine, read: Callable[..., Any], *more: Any, **words: Any) -> Any:
    return read(machine, machine.facts(FACTS), *more, **words)


def test_a_scene_of_grub() -> None:
    grub: dict[str, str | Reading] = {
        "/boot/grub/grubenv": ENVIRONMENT.decode(),
        "/boot/grub/custom.cfg": "# ktrial\n",
    }
    machine = FakeMachine(files(debian(), **grub), KNOWN)
    found = on(machine, gather_scene, user="ann")
    assert found.grounds == msgspec.structs.replace(
        debian(), files=tuple(sorted(debian().files, key=debian().files.index))
    )
    assert found.grub == GrubScene(folder="/boot/grub", environment=ENVIRONMENT, custom="# ktrial\n")
    assert find_obstacles(found) == []
    assert [one.kind for one in find_obstacles(on(machine, gather_scene))] == ["users"]
    locked = FakeMachine({**machine.files, "/boot/grub/grub.cfg": Reading(unreadable="no")}, KNOWN)
    (obstacle,) = find_obstacles(on(locked, gather_scene, user="ann"))
    assert (obstacle.kind, "/boot/grub/grub.cfg" in obstacle.message) == ("unreadable", True)


def test_a_scene_of_fedora_has_its_entry_files() -> None:
    machine = FakeMachine(files(fedora(), **{"/boot/grub2/grubenv": ENVIRONMENT.decode()}), KNOWN)
    found = on(machine, gather_scene, user="ann")
    assert (found.grounds.entries, found.grounds.grub_path) == (fedora().entries, "/boot/grub2/grub.cfg")
    assert found.grub.folder == "/boot/grub2"
    assert find_obstacles(found) == []
    machine.files["/boot/grub2/user.cfg"] = Reading(unreadable="a secret")
    (obstacle,) = find_obstacles(on(machine, gather_scene, user="ann"))
    assert "superusers" in obstacle.message


def test_a_scene_of_systemd_boot() -> None:
    firmware: dict[str, str | Reading] = {
        VARIABLES.format("LoaderInfo"): variable("systemd-boot 252"),
        VARIABLES.format("LoaderEntrySelected"): variable("0123-6.1.conf"),
        VARIABLES.format("LoaderEntryDefault"): variable("0123-6.1.conf"),
        "/efi/EFI/systemd/systemd-bootx64.efi": "",
        "/efi/loader/loader.conf": "timeout 3\n",
        "/boot/grub/grub.cfg": "# left over\n",
        "/boot/loader/entries/other.conf": "linux /a\n",
    }
    machine = FakeMachine(files(systemd_boot(), **firmware), KNOWN)
    found = on(machine, gather_scene, user="ann")
    assert find_obstacles(found) == []
    assert (found.grounds.mount, found.grounds.selected) == ("/efi", "0123-6.1.conf")
    assert set(systemd_boot().files) <= set(found.grounds.files)
    assert found.systemd_boot == SystemdBootScene(
        folder=FOLDER, version=252, loader_conf="timeout 3\n", default="0123-6.1.conf"
    )
    assert read_variable(machine, "LoaderEntryOneShot") == ""


def test_a_kernel_is_looked_at() -> None:
    lists = f"/var/lib/dpkg/info/linux-image-{OTHER}.list"
    modules = "kernel/fs/ext4/ext4.ko:\nkernel/drivers/scsi/sd_mod.ko:\nkernel/drivers/ata/ahci.ko:\n"
    tree: dict[str, str | Reading] = {
        "/boot/vmlinuz-6.1.0-12-amd64": Reading(data=bzimage(OTHER.encode()), mode=0o644),
        lists: f"/.\n/boot/vmlinuz-{OTHER}\n",
        f"/lib/modules/{RUNNING}/modules.dep": modules,
        f"/lib/modules/{OTHER}/modules.dep": modules.replace("ata/ahci", "ata/other"),
        f"/lib/modules/{OTHER}/modules.builtin": "kernel/drivers/block/nvme.ko\n",
        "/sys/class/scsi_host/host0/proc_name": "ahci\n",
        BUILT[0]: "",
    }
    machine = FakeMachine(files(debian(), **tree), KNOWN)
    found = on(machine, gather_kernel, PLAN, grub_scene())
    assert found == kernel(modules=frozenset(("ext4", "sd_mod", "other", "nvme")), dkms=BUILT[:1])
    kinds = {one.kind for one in other_kernel_obstacles(PLAN, found, grub_scene())}
    assert kinds == {"no-driver", "dkms"}
    del machine.files[lists]
    assert not on(machine, gather_kernel, PLAN, grub_scene()).is_packaged
    machine.files[f"/lib/modules/{OTHER}/pkgbase"] = "linux\n"
    assert on(machine, gather_kernel, PLAN, grub_scene()).is_packaged
    # Names that the running kernel has not are those of drivers, not of modules.
    machine.files["/sys/class/scsi_host/host0/proc_name"] = "storvsc_host\n"
    assert on(machine, gather_kernel, PLAN, grub_scene()).drivers == ("ext4", "sd_mod")
    # The agent cuts long files.
    machine.files[f"/lib/modules/{OTHER}/modules.dep"] = "x" * (1 << 20)
    assert on(machine, gather_kernel, PLAN, grub_scene()).modules is None


def test_a_release_that_is_a_path_is_none() -> None:
    tree = {"/boot/vmlinuz-6.1.0-12-amd64": Reading(data=bzimage(b"../../etc (x)"), mode=0o644)}
    found = on(FakeMachine(files(debian(), **tree), KNOWN), gather_kernel, PLAN, grub_scene())
    assert (found.release, found.has_modules, found.modules) == (None, False, frozenset())
    assert [one.kind for one in other_kernel_obstacles(PLAN, found, grub_scene())] == ["not-packaged", "no-modules"]


def test_obstacles_are_sentences_that_complete_an_error() -> None:
    found: list[Obstacle] = [one for scene, *_ in CASES for one in find_obstacles(scene)]
    for one in found:
        assert not one.message.endswith("."), one
        assert one.message[0].islower() or one.message.startswith(("/", "GRUB", "Secure", "DKMS")), one
