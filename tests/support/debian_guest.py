# SPDX-License-Identifier: Apache-2.0
"""A Debian 12 with systemd in QEMU that survives reboots: a cached image of it, a layer per guest, commands from here.

ktrial lies in a checkout of its own on a second disk, which is read-only there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import inspect
import json
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from tests.guests.system import initramfs
from tests.guests.system.kernels import KERNELS, fetch, module_files, release
from tests.support.debian import DebianRoot

CHECKOUT = Path(__file__).resolve().parents[2]
#: Debian 12's own.
KERNEL = KERNELS[0]
PACKAGES = (
    *("systemd-sysv", "dbus", "udev", "kmod", "procps", "python3", "systemd-zram-generator", "tuned"),
    "libstdc++6",  # of wheels
)
IMAGE_BYTES = 3 << 30
CLONE = "/opt/ktrial"
BOOT_LIMIT_S = 420

_TOOLS = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_CACHE = CHECKOUT / ".setup" / "debian"
#: What the root file system needs before udev runs; NVMe is left to udev.
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
_COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 nokaslr cryptomgr.notests no_timer_check mitigations=off audit=0 8250.nr_uarts=1"
)
# Runs each script that comes through the port, and answers with its status and its output.
_RUNNER = """
import json, os, subprocess, time
while not os.path.exists("/dev/virtio-ports/runner"):
    time.sleep(0.1)
port = os.open("/dev/virtio-ports/runner", os.O_RDWR)
line = b""
while True:
    data = os.read(port, 65536)
    if not data:
        time.sleep(0.1)
    line += data
    if not line.endswith(b"\\n"):
        continue
    run = subprocess.run(["sh", "-c", json.loads(line)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    line = b""
    answer = json.dumps([run.returncode, run.stdout, run.stderr]).encode() + b"\\n"
    while answer:
        answer = answer[os.write(port, answer):]
"""
_FILES = {
    "etc/machine-id": "3f1c6a52b0e14d6c9a3f5f6d6f0b7a11\n",
    "etc/hostname": "guest\n",
    "etc/hosts": "127.0.0.1 localhost guest\n",
    "etc/fstab": f"/dev/vda / ext4 defaults 0 1\n/dev/vdb {CLONE} ext4 ro 0 0\n",
    "usr/local/lib/runner.py": _RUNNER,
    "etc/systemd/system/runner.service": "[Unit]\nAfter=local-fs.target\n[Service]\n"
    "Environment=HOME=/root LANG=C.UTF-8 COLUMNS=200\nExecStart=/usr/bin/python3 /usr/local/lib/runner.py\n",
}
# TuneD is a scenario's own affair, and so is a swap device; the rest takes time, or would work beside the tests.
_SETTLE = """
systemctl disable tuned.service
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer getty.target
systemctl mask systemd-binfmt.service proc-sys-fs-binfmt_misc.automount dev-mqueue.mount dev-hugepages.mount
systemctl mask modprobe@dm_mod.service modprobe@drm.service modprobe@loop.service modprobe@efi_pstore.service
systemctl mask modprobe@fuse.service sys-fs-fuse-connections.mount systemd-logind.service systemd-journal-flush.service
ln -s ../runner.service /etc/systemd/system/multi-user.target.wants/runner.service
sed -i '/^\\[zram0\\]/d' /etc/systemd/zram-generator.conf
systemctl set-default multi-user.target
"""
#: What the head imports, with what that needs.
_WHEELS = (
    *("alembic", "click", "duckdb", "_duckdb*", "adbc_driver_duckdb", "jeepney", "msgspec", "numpy", "numpy.libs"),
    *("scipy", "scipy.libs", "sqlalchemy", "zstandard", "mako", "markupsafe", "typing_extensions.py", "greenlet"),
)


@dataclass(frozen=True)
class GuestImages:
    """The disks that every guest begins with, its kernel, and what mounts the first of them."""

    root: Path
    clone: Path
    kernel: Path
    start: Path

    @classmethod
    def make(cls, folder: Path) -> GuestImages:
        """Make what is not in the cache: the checkout's disk and the start are made anew in `folder`."""
        fetch(KERNEL)
        clone, start = folder / "clone.img", folder / "start"
        _make_clone(folder / "clone", clone)
        modules = module_files(replace(KERNEL, modules=_FIRST_MODULES))
        start.write_bytes(initramfs.build(modules, _INIT, {}))
        return cls(_root_image(), clone, KERNEL.tree / "boot" / f"vmlinuz-{release(KERNEL.tree)}", start)


def _root_image() -> Path:
    """Return the image of the system, which takes two minutes to make where the cache lacks it."""
    words = (*PACKAGES, *_FILES, *_FILES.values(), _SETTLE, release(KERNEL.tree), inspect.getsource(_make_root))
    image = _CACHE / f"{hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]}.img"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image.exists():
            part = _CACHE / "part"
            subprocess.run(["rm", "--recursive", "--force", "--one-file-system", part], check=True)
            part.mkdir()
            _make_root(part / "root", part / "image")
            (part / "image").rename(image)
            subprocess.run(["rm", "--recursive", "--force", "--one-file-system", part], check=True)
    return image


def _make_root(folder: Path, image: Path) -> None:
    root = DebianRoot.make(folder, *PACKAGES)
    modules = folder / "lib/modules"
    shutil.copytree(KERNEL.tree / "lib/modules", modules, dirs_exist_ok=True)
    for name, text in _FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    settled = root.run("sh", "-ec", _SETTLE)
    assert settled.returncode == 0, settled.stdout
    (folder / CLONE.lstrip("/")).mkdir()
    _image_of(folder, image, IMAGE_BYTES)


def _image_of(folder: Path, image: Path, size: int) -> None:
    with image.open("wb") as file:
        file.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", folder, image], check=True, env=_TOOLS)


def _make_clone(folder: Path, image: Path) -> None:
    """Make a disk with this checkout's own files and its set-up, as root's."""
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


@dataclass(frozen=True)
class Ran:
    """What a script of a guest ended with."""

    status: int
    out: str
    err: str


class DebianGuest:
    """One guest: a layer above the images, and QEMU between `boot` and `halt`."""

    def __init__(self, images: GuestImages, folder: Path, *, memory_mib: int = 2048) -> None:
        self._images, self._folder, self._memory_mib, self._boots = images, folder, memory_mib, 0
        self._disk = folder / "disk.qcow2"
        layer = ("qemu-img", "create", "-q", "-f", "qcow2", "-b", images.root, "-F", "raw", self._disk)
        subprocess.run(layer, check=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._port: socket.socket | None = None

    def __enter__(self) -> DebianGuest:
        try:
            self.boot()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._port is not None:
            self._port.close()

    def boot(self) -> None:
        """Start it, and wait until systemd has started everything."""
        self._boots += 1
        mine, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(self._command(its.fileno()), pass_fds=(its.fileno(),))
        mine.settimeout(BOOT_LIMIT_S)
        self._port = mine
        state = self.run("systemctl is-system-running --wait").out.strip()
        failed = self.run("systemctl --failed --no-legend --plain").out
        assert state == "running", f"{state}: {failed}"

    def _command(self, port: int) -> list[str]:
        images = self._images
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-machine", "q35,memory-backend=memory"]
        # The guest's kernel touches little of it, so it may have more than there is here.
        memory = f"memory-backend-ram,id=memory,size={self._memory_mib}M,reserve=off"
        command += ["-m", f"{self._memory_mib}", "-object", memory]
        # One thread for both CPUs: see tests/guests/system/kernels.py.
        command += ["-cpu", "Nehalem", "-accel", "tcg,thread=single", "-smp", "2"]
        command += ["-display", "none", "-no-reboot", "-serial", f"file:{self._folder}/console-{self._boots}"]
        command += ["-drive", f"file={self._disk},format=qcow2,if=virtio,cache=unsafe"]
        command += ["-drive", f"file={images.clone},format=raw,if=virtio,readonly=on"]
        command += ["-blockdev", "driver=null-co,node-name=nvme,size=16777216,read-zeroes=on"]
        command += ["-device", "nvme,drive=nvme,serial=k"]
        command += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=runner,fd={port}"]
        command += ["-device", "virtserialport,chardev=runner,name=runner"]
        command += ["-kernel", str(images.kernel), "-initrd", str(images.start)]
        return [*command, "-append", _COMMAND_LINE]

    def halt(self) -> None:
        """Shut it down as an administrator does."""
        assert self._process is not None
        assert self._port is not None
        # What would answer ends with the rest.
        self._port.sendall(json.dumps("systemctl --no-block poweroff").encode() + b"\n")
        while self._port.recv(65536):
            pass
        self._process.wait(timeout=BOOT_LIMIT_S)
        self._port.close()
        self._process = None

    def reboot(self) -> None:
        self.halt()
        self.boot()

    def run(self, script: str) -> Ran:
        """Run a script as root."""
        assert self._port is not None
        try:
            self._port.sendall(json.dumps(script).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                data = self._port.recv(65536)
                assert data, self.console
                answer += data
        except TimeoutError as error:
            raise AssertionError(f"no answer to {script!r}; the console showed:\n{self.console}") from error
        return Ran(*json.loads(answer))

    @property
    def console(self) -> str:
        """What the console of this boot showed."""
        with contextlib.suppress(OSError):
            return (self._folder / f"console-{self._boots}").read_text(errors="replace")
        return ""
