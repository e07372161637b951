# SPDX-License-Identifier: Apache-2.0
"""A Debian 12 with systemd in QEMU that survives reboots: a cached image, a layer per guest, and commands from here.

A checkout of ktrial is on a second disk, which is read-only in the guest.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.guests.system import initramfs
from tests.guests.system.kernels import KERNELS, fetch, module_files, release
from tests.support.debian import DebianRoot
from tests.support.qemu_guest import RUNNER, QemuGuest

CHECKOUT = Path(__file__).resolve().parents[2]
#: Debian 12's own kernel.
KERNEL = KERNELS[0]
PACKAGES = (
    *("systemd-sysv", "dbus", "udev", "kmod", "procps", "python3", "systemd-zram-generator", "tuned"),
    "libstdc++6",  # needed by wheels
    *("openssh-server", "sudo", "iproute2"),  # only guests that are reached over ssh start sshd
)
IMAGE_BYTES = 3 << 30
CLONE = "/opt/ktrial"
CLONE_MOUNT = f"/dev/vdb {CLONE} ext4 ro 0 0\n"

TOOLS = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_CACHE = CHECKOUT / ".setup" / "debian"
#: Modules that the root file system needs before udev runs; udev loads the module for NVMe.
_FIRST_MODULES = ("virtio_pci", "virtio_blk", "ext4")
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
@MODULES@
mkdir /new
mount -t ext4 /dev/vda /new || poweroff -f
for place in proc sys dev; do mount --move /$place /new/$place; done
exec switch_root /new /lib/systemd/systemd
"""
#: Arguments that make an emulated boot faster.
COMMAND_LINE = "console=ttyS0 nokaslr cryptomgr.notests no_timer_check mitigations=off audit=0 8250.nr_uarts=1"
FILES = {
    "etc/machine-id": "3f1c6a52b0e14d6c9a3f5f6d6f0b7a11\n",
    "etc/hostname": "guest\n",
    "etc/hosts": "127.0.0.1 localhost guest\n",
    "usr/local/lib/runner.py": RUNNER,
    "etc/systemd/system/runner.service": "[Unit]\nAfter=local-fs.target\n[Service]\n"
    "Environment=HOME=/root LANG=C.UTF-8 COLUMNS=200\nExecStart=/usr/bin/python3 /usr/local/lib/runner.py\n",
}
_FSTAB = f"/dev/vda / ext4 defaults 0 1\n{CLONE_MOUNT}"
# Tests of TuneD and of a swap device set them up themselves; other services take time or would disturb the tests.
SETTLE = """
systemctl disable tuned.service ssh.service
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer getty.target
systemctl mask systemd-binfmt.service proc-sys-fs-binfmt_misc.automount dev-mqueue.mount dev-hugepages.mount
systemctl mask modprobe@dm_mod.service modprobe@drm.service modprobe@loop.service modprobe@efi_pstore.service
systemctl mask modprobe@fuse.service sys-fs-fuse-connections.mount systemd-logind.service systemd-journal-flush.service
ln -s ../runner.service /etc/systemd/system/multi-user.target.wants/runner.service
sed -i '/^\\[zram0\\]/d' /etc/systemd/zram-generator.conf
systemctl set-default multi-user.target
"""
#: The packages that the head imports, with their dependencies.
_WHEELS = (
    *("alembic", "click", "duckdb*", "_duckdb*", "adbc_driver_duckdb", "jeepney", "msgspec", "numpy", "numpy.libs"),
    *("scipy", "scipy.libs", "sqlalchemy", "zstandard", "mako", "markupsafe", "typing_extensions.py", "greenlet"),
)


@dataclass(frozen=True)
class GuestImages:
    """The disks with which every guest begins, its kernel, and the initramfs that mounts the first disk."""

    root: Path
    clone: Path
    kernel: Path
    start: Path

    @classmethod
    def make(cls, folder: Path) -> GuestImages:
        """Make the images that are not in the cache.

        The checkout's disk and the initramfs are always new, in `folder`.
        """
        fetch(KERNEL)
        clone, start = folder / "clone.img", folder / "start"
        make_clone(folder / "clone", clone)
        modules = module_files(replace(KERNEL, modules=_FIRST_MODULES))
        start.write_bytes(initramfs.build(modules, _INIT, {}))
        return cls(_root_image(), clone, KERNEL.tree / "boot" / f"vmlinuz-{release(KERNEL.tree)}", start)


def _root_image() -> Path:
    """Return the image of the system, which takes two minutes to make if the cache lacks it."""
    words = (*PACKAGES, *FILES, *FILES.values(), _FSTAB, SETTLE, release(KERNEL.tree), inspect.getsource(_make_root))
    return cached(words, _make_root) / "root.img"


def cached(words: Sequence[str], make: Callable[[Path, Path], None]) -> Path:
    """Return the cached folder for these words. If there is none, `make` fills one, in a temporary folder."""
    folder = _CACHE / hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part, work = _CACHE / "part", _CACHE / "work"
            for place in (part, work):
                subprocess.run(["rm", "--recursive", "--force", "--one-file-system", place], check=True)
                place.mkdir()
            make(part, work)
            part.rename(folder)
            subprocess.run(["rm", "--recursive", "--force", "--one-file-system", work], check=True)
    return folder


def _make_root(folder: Path, work: Path) -> None:
    root = debian(work / "root", PACKAGES, {**FILES, "etc/fstab": _FSTAB}, SETTLE)
    shutil.copytree(KERNEL.tree / "lib/modules", root.folder / "lib/modules", dirs_exist_ok=True)
    _image_of(root.folder, folder / "root.img", IMAGE_BYTES)


def debian(folder: Path, packages: Sequence[str], files: Mapping[str, str], settle: str) -> DebianRoot:
    """Unpack a Debian with these files, and run a script in it."""
    root = DebianRoot.make(folder, *packages)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    settled = root.run("sh", "-ec", settle)
    assert settled.returncode == 0, settled.stdout
    (folder / CLONE.lstrip("/")).mkdir()
    return root


def _image_of(folder: Path, image: Path, size: int) -> None:
    with image.open("wb") as file:
        file.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", folder, image], check=True, env=TOOLS)


def make_clone(folder: Path, image: Path) -> None:
    """Make a disk with this checkout's own files and its set-up, owned by root."""
    for name in ("src", "setup", "agent/src", "agent/.cargo"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("ktrial", "agent/Cargo.toml", "agent/Cargo.lock", ".setup/bin/ktrial-agent"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, folder / name)
    wheels = Path("lib") / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for pattern in _WHEELS:
        for found in (CHECKOUT / ".venv" / wheels).glob(pattern):
            copied = folder / ".venv" / wheels / found.name
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(found, copied) if found.is_dir() else shutil.copy2(found, copied)
    (folder / ".venv/bin").mkdir()
    (folder / ".venv/bin/python").symlink_to("/usr/bin/python3")
    (folder / ".setup/stamp").write_text(f"{CLONE}\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder / "src", folder / ".venv"], check=True)
    subprocess.run(["chown", "--recursive", "0:0", folder], check=True)
    subprocess.run(["chmod", "--recursive", "go-w", folder], check=True)
    _image_of(folder, image, 1 << 30)


class DebianGuest(QemuGuest):
    """A guest without a loader: QEMU itself starts the kernel in every boot."""

    def __init__(self, images: GuestImages, folder: Path, *, memory_mib: int = 2048) -> None:
        super().__init__(images.root, images.clone, folder / "disk.qcow2", memory_mib=memory_mib)
        self._images = images

    def _loader(self) -> list[str]:
        start = ["-kernel", str(self._images.kernel), "-initrd", str(self._images.start)]
        return [*start, "-append", f"{COMMAND_LINE} quiet panic=-1", "-no-reboot"]
