# SPDX-License-Identifier: Apache-2.0
"""A guest that boots the same trial entry many times by itself, with a planted fault in each of these boots.

Loader, kernel, initramfs, root file system and agent are the real ones. While attempts are left, a shell script
replaces systemd, so that a boot takes only seconds: `init=` is on the command line of the default entry and of the
trial's entry.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.boot_guest import BootGuest, BootImages
from tests.support.debian_guest import CLONE

KTRIAL = f"{CLONE}/ktrial"
#: Command that lists the files which an attempt must leave unchanged.
FILES = "find /boot /etc/systemd /etc/default -type f -printf '%p %m %u %g %s ' -exec sha256sum {} ';' | sort"

_WORD = "transparent_hugepage=never"
_INIT, _WORK, _RECORD = "/usr/local/sbin/attempts", "/var/lib/attempts", "/var/lib/ktrial/boots.jsonl"
#: The hang is loaded into the memory of the crash kernel.
_WORDS = f"init={_INIT} crashkernel=32M"
_SCRIPT = rf"""#!/bin/sh
[ -e {_WORK}/left ] || exec /lib/systemd/systemd "$@"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
agent=/usr/local/libexec/ktrial/ktrial-agent
say() {{ echo "attempts: $*" > /dev/console; }}
over() {{ say "$*"; rm {_WORK}/left; sync; exec /lib/systemd/systemd; }}
ask() {{
    printf '{{"id":1,"do":"hello","protocol":1,"head":"0.1.0"}}\n{{"id":2,%s}}\n' "$1" > /run/asked
    $agent serve --role root < /run/asked > /run/told 2>&1
    tail -n 1 /run/told | grep -q '"ok"' || over "the agent says: $(tail -n 1 /run/told)"
}}
mount -o remount,rw /
[ ! -d /sys/firmware/efi ] || mount -t efivarfs none /sys/firmware/efi/efivars
case " $(cat /proc/cmdline) " in
*" ktrial.boot=ktrial-trial "*)
    . {_WORK}/fault
    modprobe i6300esb heartbeat=$watchdog_s
    exec 3> /dev/watchdog
    $agent boot-health &
    here=$(cat /proc/sys/kernel/random/boot_id)
    until grep -q "\"started\".*$here" {_RECORD}; do sleep 0.2; echo >&3; done
    say "the fault"
    fail
    say "nothing failed"
    sleep infinity
    ;;
esac
ask '"do":"boot-status"'
left=$(cat {_WORK}/left)
[ "$left" -gt 0 ] || over "none is left"
echo $((left - 1)) > {_WORK}/left
ask '"do":"boot-arm","entry":"ktrial-trial"'
say "$left left, one begins"
sync
mount -o remount,ro /
reboot --force --force --no-wtmp
"""
# Loads four bytes of code as crash kernel, and panics: the other CPU is stopped, and this one runs `cli; hlt` for ever.
_HANG = r"""
import ctypes, re
class Segment(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t), ("at", ctypes.c_ulong), ("room", ctypes.c_size_t)]
at = int(re.search("([0-9a-f]+)-[0-9a-f]+ : Crash kernel", open("/proc/iomem").read())[1], 16)
code = b"\xfa\xf4\xeb\xfd"
segment = Segment(code, len(code), at, 4096)
x86_64, on_crash = 62 << 16, 1
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(246, ctypes.c_ulong(at), ctypes.c_ulong(1), ctypes.byref(segment), ctypes.c_ulong(x86_64 | on_crash)):
    raise OSError(ctypes.get_errno(), "kexec_load")
open("/proc/sysrq-trigger", "w").write("c")
"""
#: The faults of a trial boot. For the hang, the watchdog's time is 20 s instead of ktrial's 60 s.
FAULTS = {
    "panic": "watchdog_s=60\nfail() { echo c > /proc/sysrq-trigger; }",
    "hang": "watchdog_s=20\nfail() { python3 -S /usr/local/sbin/hang; }",
}
#: Seconds without console output after which the guest counts as stuck. The longest normal silence is the watchdog's.
_SILENCE_S = 240
_LOOK_S = 15


class Attempts(NamedTuple):
    """Trial boots with a fault: how many there were, how many returned by themselves, and the time of each."""

    begun: int
    back: int
    took_s: tuple[int, ...]
    #: The state of the CPUs when the machine had to be reset, and events that belong to no attempt.
    trouble: tuple[str, ...] = ()


class AttemptsGuest(BootGuest):
    """The guest, with QEMU's monitor for the case that the guest is stuck."""

    def __init__(self, images: BootImages, folder: Path) -> None:
        super().__init__(images, folder)
        self._monitor = folder / "monitor"

    def _loader(self) -> list[str]:
        return [*super()._loader(), "-monitor", f"unix:{self._monitor},server,nowait"]

    def registers(self) -> str:
        """Return the state of all CPUs, read twice."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self._monitor))
            monitor.settimeout(3)
            for _ in range(2):
                monitor.sendall(b"info registers -a\n")
                time.sleep(2)
            read = b""
            with contextlib.suppress(TimeoutError):
                while data := monitor.recv(65536):
                    read += data
        return read.decode(errors="replace")

    def succeed(self, script: str) -> str:
        ran = self.run(script)
        assert ran.status == 0, ran.err + ran.out
        return ran.out

    def prepare(self) -> None:
        """Boot the default entry with the script, and let `ktrial boot try` prepare the trial entry."""
        for file, text in ((_INIT, _SCRIPT), ("/usr/local/sbin/hang", _HANG)):
            self.succeed(f"cat > {file} << 'END'\n{text}\nEND\nchmod 755 {file}")
        place = "/boot/efi/loader/entries/*.conf" if self.loader == "systemd-boot" else "/boot/grub/grub.cfg"
        line = "options" if self.loader == "systemd-boot" else r"\s*linux"
        self.succeed(rf"sed -i -E 's#^({line}\s.*\S)\s*$#\1 {_WORDS}#' {place}; mkdir {_WORK}")
        self.reboot()
        assert _WORDS.split(maxsplit=1)[0] in self.command_line()

    def arm_first(self) -> None:
        """Arm the rehearsal; the attempts begin after it."""
        self.succeed(f"{KTRIAL} boot try {_WORD} --yes --no-reboot")

    def record(self) -> list[dict[str, Any]]:
        """Return the agent's events."""
        lines = self.succeed(f"cat {_RECORD}").splitlines()
        return [json.loads(line) for line in lines if line]

    def attempt(self, fault: str, count: int) -> Attempts:
        """Let the guest make this many attempts, and wait until its default entry runs systemd again."""
        known, stuck = len(self.record()), []
        self.succeed(f"echo {count} > {_WORK}/left; cat > {_WORK}/fault << 'END'\n{FAULTS[fault]}\nEND")
        self.send("systemctl --no-block reboot")
        while not self._has_booted():
            stuck.append(f"{self.registers()}\n{self.console[-3000:]}")
            self.kill()
            self.start()
        self.assert_running()
        return read_attempts(self.record()[known:], stuck)

    def _has_booted(self) -> bool:
        """Wait for systemd in the default entry; return False if the machine gets stuck first."""
        shown, since = "", time.monotonic()
        while time.monotonic() - since < _SILENCE_S:
            with contextlib.suppress(AssertionError):
                self.wait_boot(_LOOK_S)
                return True
            if self.console != shown:
                shown, since = self.console, time.monotonic()
        return False


def read_attempts(events: list[dict[str, Any]], stuck: list[str]) -> Attempts:
    """Count attempts that armed the entry, started it, and ended before it was healthy.

    Stuck attempts never returned.
    """
    took, strange = [], []
    armed = [place for place, one in enumerate(events) if (one["event"], one["entry"]) == ("armed", "ktrial-trial")]
    for place in armed:
        three = events[place : place + 3]
        ended = [one["event"] for one in three] == ["armed", "started", "failed"]
        if ended and three[-1]["why"] == ["the boot ended before it was found healthy"]:
            took.append(three[-1]["at"] - three[0]["at"])
        else:
            strange.append(json.dumps(three))
    return Attempts(len(armed), len(took) - len(stuck), tuple(took), (*strange, *stuck))
