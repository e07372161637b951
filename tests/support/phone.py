# SPDX-License-Identifier: Apache-2.0
"""A phone on a cable: Android's shell (mksh), tools (toybox) and folders behind an adbd, and a user here with adb.

The phone has its own network, mounts, processes, clock and /data; the kernel is this machine's. Debian's real adb
connects to it, with its own server, port and home. The cable is a proxy of the tests, and pulling it ends the
connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.adb_device import SHELL_UID
from tests.support.remote_machine import CHECKOUT, RemoteMachine, Way

#: The tools of Android's toybox on a phone.
_TOOLS = """
cat chmod chown cp cut date dmesg echo env false find grep head hostname id kill ln ls mkdir mkfifo mv nproc ps pwd
readlink rm rmdir sed seq sha256sum sleep sort stat sync tail tee touch tr true uname wc which xargs
"""
_PROPERTIES = {
    "ro.build.version.release": "14",
    "ro.build.version.sdk": "34",
    "ro.debuggable": "0",
    "ro.hardware": "oriole",
    "ro.product.manufacturer": "Google",
    "ro.product.model": "Pixel 6",
    "ro.soc.manufacturer": "Google",
    "ro.soc.model": "GS101",
    "ro.product.cpu.abilist64": "arm64-v8a",
    "ro.product.cpu.abi": "arm64-v8a",
}
_GETPROP = """#!/system/bin/sh
if [ $# -eq 0 ]; then
    while IFS== read -r name value; do echo "[$name]: [$value]"; done < /system/build.prop
else
    while IFS== read -r name value; do [ "$name" != "$1" ] || { echo "$value"; exit; }; done < /system/build.prop
    echo "$2"
fi
"""
_DUMPSYS = """#!/system/bin/sh
[ "$1 $3" != "gfxinfo reset" ] || exit 0
[ -f "/system/dumpsys/$1" ] || { echo "Can't find service: $1"; exit 0; }
cat "/system/dumpsys/$1"
"""
#: Programs that start apps and touch the screen. Tests see only that they were called.
_NOTED = "#!/system/bin/sh\nexit 0\n"
_SETTINGS = """#!/system/bin/sh
[ "$1 $2 $3" = "get global low_power" ] && cat /system/low_power
"""
#: The output of services, shortened to the relevant parts.
DUMPS = {
    "battery": """Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  Max charging current: 500000
  status: 2
  health: 2
  present: true
  level: 85
  scale: 100
  voltage: 4231
  temperature: 281
  technology: Li-ion
""",
    "power": """POWER MANAGER (dumpsys power)

Power Manager State:
  mDirty=0x0
  mWakefulness=Awake
  mWakefulnessChanging=false
  mIsPowered=true
  mPlugType=2
""",
    "thermalservice": """IsStatusOverride: false
ThermalEventListeners:
\tcallbacks: 3
Thermal Status: 0
Cached temperatures:
\tTemperature{mValue=30.1, mType=3, mName=VIRTUAL-SKIN, mStatus=0}
HAL Ready: true
HAL connection:
\tThermalHAL 2.0 connected: yes
Current temperatures from HAL:
\tTemperature{mValue=44.0, mType=0, mName=BIG, mStatus=0}
\tTemperature{mValue=31.4, mType=3, mName=VIRTUAL-SKIN, mStatus=0}
\tTemperature{mValue=29.0, mType=2, mName=battery, mStatus=0}
Current cooling devices from HAL:
\tCoolingDevice{mValue=0, mType=2, mName=thermal-cpufreq-0}
""",
}
_GETENFORCE = "#!/system/bin/sh\necho Enforcing\n"

#: The first process of the phone.
_BOOT = """
set -eu
mount --make-rprivate /
ip link set lo up
hostname {name}
mount --bind {root} {root}
for folder in proc sys; do mount --rbind /$folder {root}/$folder; done
{more}
export PYTHONPATH={checkout}
exec {python} -m tests.support.remote_machine first {python} -m tests.support.adb_device {folder}
"""


class Phone(RemoteMachine):
    """The phone, and a user here whose adb server recognises it when the cable is in."""

    def __init__(self, folder: Path, *, su: str = "magisk", more: str = "", options: Mapping[str, Any] = {}) -> None:
        self.folder, self.name = folder, "phone"
        self.root = folder / "root"
        self.home = self.root / "data/local/tmp"
        self._more, self._python = more, sys.executable
        self._process = None
        self._write_root(su)
        self.set(**{"auth": "accept", "features": "shell_v2,cmd", "uid": SHELL_UID, "environment": {}, **options})
        self.way = Way(folder / "socket")
        self.serial = f"127.0.0.1:{self.way.port}"
        self._server: subprocess.Popen[bytes] | None = None
        self._server_port = _free_port()
        self.start_server()
        self.boot()

    def set(self, **options: Any) -> None:
        """Change the behaviour of adbd for the next connection."""
        file = self.folder / "adbd.json"
        before = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**before, **options}))

    def set_property(self, name: str, value: str) -> None:
        file = self.root / "system/build.prop"
        kept = [line for line in file.read_text().splitlines() if not line.startswith(f"{name}=")]
        file.write_text("\n".join([*kept, f"{name}={value}", ""]))

    def start_server(self, trace: str = "") -> None:
        """Start this user's adb server, which writes a trace to its log if requested."""
        with (self.folder / "adb.log").open("ab") as log:
            self._server = subprocess.Popen(
                ["adb", "-L", f"tcp:{self._server_port}", "nodaemon", "server"],
                env={**self.environment(), "ADB_TRACE": trace},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end_s = time.monotonic() + 20
        while time.monotonic() < end_s:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._server_port)):
                return
            time.sleep(0.05)
        raise AssertionError((self.folder / "adb.log").read_text())

    def stop_server(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def plug_in(self) -> str:
        """Plug the cable in; return adb's state of the phone."""
        self.way.is_out = False
        self.adb("connect", self.serial)
        end_s = time.monotonic() + 5
        while (state := self.adb("-s", self.serial, "get-state")).returncode and time.monotonic() < end_s:
            time.sleep(0.05)
        return (state.stdout or state.stderr).strip()

    def pull(self) -> None:
        """Pull the cable."""
        self.way.is_out = True
        self.way.cut()

    def adb(self, *words: str, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["adb", *words],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def boot_script(self) -> str:
        return _BOOT.format(
            folder=self.folder,
            root=self.root,
            name=self.name,
            more=self._more,
            python=self._python,
            checkout=CHECKOUT,
        )

    def is_up(self) -> bool:
        with socket.socket(socket.AF_UNIX) as attempt:
            try:
                attempt.connect(str(self.folder / "socket"))
            except OSError:
                return False
        return True

    def environment(self) -> dict[str, str]:
        here = self.folder / "here"
        kept = {name: value for name, value in os.environ.items() if name not in {"KTRIAL_STORE", "XDG_STATE_HOME"}}
        return {
            **kept,
            "HOME": str(here),
            "ANDROID_ADB_SERVER_PORT": str(self._server_port),
            "XDG_STATE_HOME": str(here / "state"),
            "XDG_CACHE_HOME": str(here / "cache"),
            "XDG_CONFIG_HOME": str(here / "config"),
        }

    def command(self, *words: str, host: str | None = None) -> list[str]:
        return [sys.executable, "-m", "ktrial", "--host", host or "adb", *words]

    def wire(self) -> list[str]:
        """Return the messages on the wire so far: sender, command, both numbers, bytes."""
        return (self.folder / "wire").read_text().splitlines()

    def left(self) -> str:
        """Return the names of all files on the phone except root's journal."""
        # Others may still remove files; find(1) ends with an error for a folder that goes while it looks.
        data = Path(f"/proc/{self._first_process()}/root{self.root}/data")
        found = [Path(top, name) for top, folders, files in os.walk(data) for name in (*folders, *files)]
        kept = (str(path.relative_to(data)) for path in sorted(found))
        return "\n".join(name for name in kept if not name.startswith("adb/ktrial"))

    def close(self) -> None:
        self.stop_server()
        super().close()

    def _write_root(self, su: str) -> None:
        root = self.root
        for place in (
            "system/bin",
            "system/lib",
            "system/dumpsys",
            "data/local/tmp",
            "data/adb/modules",
            "dev",
            "proc",
            "sys",
        ):
            (root / place).mkdir(parents=True)
        (self.folder / "here").mkdir()
        os.chown(self.home, SHELL_UID, SHELL_UID)
        self.home.chmod(0o771)
        (root / "data/adb").chmod(0o700)
        (root / "bin").symlink_to("system/bin")
        # Android's own library knows these names; the toybox here reads them from files.
        (root / "system/etc").mkdir()
        (root / "etc").symlink_to("system/etc")
        (root / "system/etc/passwd").write_text(
            f"root:x:0:0::/:/system/bin/sh\nshell:x:{SHELL_UID}:{SHELL_UID}::/:/system/bin/sh\n"
        )
        (root / "system/etc/group").write_text(f"root:x:0:\nshell:x:{SHELL_UID}:\n")
        (root / "sdcard").mkdir(mode=0o777)
        shutil.copy("/bin/mksh-static", root / "system/bin/sh")
        copy_program("/bin/toybox", root)
        for tool in _TOOLS.split():
            (root / "system/bin" / tool).symlink_to("toybox")
        for name, text in {
            "getprop": _GETPROP,
            "dumpsys": _DUMPSYS,
            "getenforce": _GETENFORCE,
            "settings": _SETTINGS,
            "am": _NOTED,
            "input": _NOTED,
        }.items():
            (root / "system/bin" / name).write_text(text)
            (root / "system/bin" / name).chmod(0o755)
        (root / "system/build.prop").write_text("".join(f"{name}={value}\n" for name, value in _PROPERTIES.items()))
        (root / "system/low_power").write_text("0\n")
        for service, text in DUMPS.items():
            (root / "system/dumpsys" / service).write_text(text)
        for name, minor in {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}.items():
            os.mknod(root / "dev" / name, 0o20666, os.makedev(1, minor))
            (root / "dev" / name).chmod(0o666)
        if su:
            (root / "su").write_text(su)
            program = root / "system/bin/su"
            source = CHECKOUT / "tests/support/phone_su.c"
            subprocess.run(["gcc", "-static", "-O1", "-o", program, source], check=True)
            program.chmod(0o6755)


def copy_program(program: str, root: Path) -> None:
    """Copy a program and the libraries that it loads."""
    shutil.copy(program, root / "system/bin")
    loaded = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"(/\S+) \(0x", loaded):
        place = root / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as attempt:
        return int(attempt.getsockname()[1])


@contextlib.contextmanager
def phone(*, plugged_in: bool = True, **options: Any) -> Iterator[Phone]:
    """Yield a phone for the time of a test. Fail without root."""
    assert os.geteuid() == 0, "this test makes namespaces: run ./check as root"
    folder = Path(tempfile.mkdtemp(prefix="ktrial-phone-"))
    folder.chmod(0o755)
    made: Phone | None = None
    try:
        made = Phone(folder, **options)
        if plugged_in:
            made.plug_in()
        yield made
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(folder, ignore_errors=True)
