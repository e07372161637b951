# SPDX-License-Identifier: Apache-2.0
"""Boots per hour of a trial over boots, against the same boots made by a shell script with `grub-reboot`.

Run as root in a checkout that is set up:  .venv/bin/python -m perf.boots [BOOTS]

Both boot the same two entries of one Debian in QEMU, under GRUB. Both wait, by the same rule, until the boot is a
minute old and idle, and run the same command. A boot lasts from arming its entry to arming the next one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from ktrial.cli.shared.boot_trials import UPTIME_S
from ktrial.tuning.doctor.confounders import PRESSURE_PERCENT
from perf.arguments import argument, how_many
from tests.support.boot_guest import BootGuest, BootImages
from tests.support.debian_guest import CLONE

BOOTS = 4
#: How much more time than the script a trial may take, as a share.
GOAL = 0.10
#: Number of looks, and seconds between them, until nothing waits for a CPU, memory or a disk.
_LOOKS, _LOOK_EACH_S = 24, 10
_LIMIT_S = 900
_WORD = "transparent_hugepage=never"
_KTRIAL = f"{CLONE}/ktrial"
_RECORD, _TIMES, _ENTRIES = "/var/lib/ktrial/boots.jsonl", "/root/times", "/boot/grub/custom.cfg"
_LOAD = "echo work 1$(date +%N | cut -c1-3)"
_PROTOCOL = f"""
name = "boots"
command = ["/bin/sh", "-c", "{_LOAD}"]
metrics = ["work:lower=work ([0-9]+)"]
primary = "work"

[design]
cap = 20
runs_per_visit = 1
settle = "0s"
until_all_decided = true

[arms.control]

[arms.huge]
boot = ["{_WORD}"]
"""
_SCRIPT = f"""#!/bin/sh
left=$(({UPTIME_S:.0f} - $(cut -d. -f1 /proc/uptime)))
[ $left -le 0 ] || sleep $left
for look in $(seq {_LOOKS}); do
    cat /proc/pressure/cpu /proc/pressure/memory /proc/pressure/io |
        awk -F '[= ]' '/^some/ {{ if ($3 > {PRESSURE_PERCENT}) busy = 1 }} END {{ exit busy }}' && break
    sleep {_LOOK_EACH_S}
done
sh -c "{_LOAD}" >> /root/work
date +%s >> {_TIMES}
made=$(wc -l < {_TIMES})
[ $made -le $(cat /root/boots) ] || exit 0
if [ $((made % 2)) = 0 ]; then grub-reboot plain-control; else grub-reboot plain-huge; fi
systemctl --no-block reboot
"""
_UNIT = """[Unit]
After=multi-user.target
[Service]
Type=exec
ExecStart=/bin/sh /root/script
"""


def main() -> int:
    """Measure and print; return 1 if the goal was missed."""
    boots = argument("BOOTS", BOOTS, how_many)
    with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as name:
        folder = Path(name)
        with BootGuest(BootImages.make("grub-bios", folder), folder) as guest:
            trial_s = _times_of_trial(guest, boots)
            script_s = _times_of_script(guest, boots)
    for what, found in (("a trial of ktrial's", trial_s), ("a script with grub-reboot", script_s)):
        each_s = sum(found) / len(found)
        said = f"{3600 / each_s:5.1f} boots an hour, {each_s:.0f} s each ({min(found)} to {max(found)}"
        print(f"{what:26} {said}, n = {len(found)})")
    print(f"both wait until a boot is {UPTIME_S:.0f} s old and idle, which the protocol declares")
    more = sum(trial_s) / sum(script_s) - 1
    verdict = "met" if more <= GOAL else "MISSED"
    print(f"the trial takes {more:+.1%}; goal: at most {GOAL:+.0%}: {verdict}")
    return 0 if more <= GOAL else 1


def _succeed(guest: BootGuest, script: str) -> str:
    ran = guest.run(script)
    if ran.status != 0:
        raise SystemExit(f"perf/boots: {script!r} ended with status {ran.status}: {ran.err}{ran.out}")
    return ran.out


def _follow(guest: BootGuest, times: str, count: int) -> list[int]:
    """Wait until `times` prints this many times (seconds since 1970) in some boot; return the differences."""
    until, seen = time.monotonic() + count * _LIMIT_S, guest.boot_id
    while time.monotonic() < until:
        # The next boot has answered requests to a boot that ended meanwhile.
        if guest.boot_id == seen:
            guest.wait_boot(_LIMIT_S)
        seen = guest.boot_id
        try:
            found = [int(line) for line in _succeed(guest, times).split()]
        except AssertionError:
            continue
        if len(found) >= count:
            return [after - before for before, after in pairwise(found[:count])]
    raise SystemExit("perf/boots: the boots have no end")


def _times_of_trial(guest: BootGuest, boots: int) -> list[int]:
    _succeed(guest, f"cat > /root/trial.toml << 'END'\n{_PROTOCOL}\nEND")
    guest.send(f"{_KTRIAL} trial run /root/trial.toml --yes > /root/said 2>&1")
    # The first entry is armed after the rehearsal, in the default boot.
    times = rf"""grep '"armed"' {_RECORD} | grep -v rehearsal | sed 's/.*"at":\([0-9]*\).*/\1/' | tail -n +2"""
    found = _follow(guest, times, boots + 1)
    # The script boots copies of the same entries. Without ktrial's mark they belong to no trial.
    copy = f"sed 's/ ktrial.boot=[^ ]*//; s/ktrial-/plain-/' {_ENTRIES} > /root/entries"
    _succeed(guest, f"set -e; {copy}; {_KTRIAL} trial stop; test ! -e {_ENTRIES}; cp /root/entries {_ENTRIES}")
    return found


def _times_of_script(guest: BootGuest, boots: int) -> list[int]:
    _succeed(guest, f"echo {boots + 2} > /root/boots; cat > /root/script << 'END'\n{_SCRIPT}\nEND")
    place = "/etc/systemd/system/script.service"
    _succeed(guest, f"cat > {place} << 'END'\n{_UNIT}\nEND\nsystemctl add-wants multi-user.target script.service")
    guest.send("systemctl --no-block reboot")
    return _follow(guest, f"cat {_TIMES} 2> /dev/null | tail -n +2", boots + 1)


if __name__ == "__main__":
    sys.exit(main())
