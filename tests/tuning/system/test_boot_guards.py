# SPDX-License-Identifier: Apache-2.0
"""Units that guard a boot: the agent's health check, with a systemctl of the test's own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ktrial.agent.binary import find_agent

#: Answers instead of systemd; `starts` and `queued` are active from the third look on.
SYSTEMCTL = """\
#!/bin/sh
unit=
for unit do :; done
case "$*" in
    *--value*default.target) echo active ;;
    "show --property=ActiveState --property=Job "*)
        echo >> "$FOLDER/looks-$unit"
        looks=$(wc -l < "$FOLDER/looks-$unit")
        case "$unit:$looks" in
            up.service:*|starts.service:[3-9]|queued.service:[3-9]) echo ActiveState=active ;;
            starts.*|slow.*) echo ActiveState=activating ;;
            queued.*) printf '%s\\n' Job=7 ActiveState=inactive ;;
            *) echo ActiveState=failed ;;
        esac ;;
    *list-units*) ;;
    *) exit 1 ;;
esac
"""
#: In a mount namespace, as in a boot of ktrial's entry.
SCRIPT = """\
set -e; umask 022
mkdir "$1/state"; chmod 700 "$1/state"; chmod 755 "$1/systemctl"
mount --bind "$1/systemctl" /usr/bin/systemctl
mkdir -p /var/lib/ktrial; mount --bind "$1/state" /var/lib/ktrial
echo "root=/dev/sda1 ro ktrial.boot=ktrial-trial" > "$1/line"; mount --bind "$1/line" /proc/cmdline
mount --bind /dev/null /dev/kmsg
agent=$2; shift 2
"$agent" boot-health "$@" && echo healthy || echo failed
cat /var/lib/ktrial/boots.jsonl
"""


def judged(folder: Path, *guards: str, limit_s: int = 30) -> tuple[str, dict[str, Any]]:
    """Return the word for how the boot is, and the event that says so."""
    (folder / "systemctl").write_text(SYSTEMCTL.replace("$FOLDER", str(folder)))
    options = [part for unit in guards for part in ("--guard", unit)]
    agent = str(find_agent())
    argv = ("unshare", "-m", "sh", "-c", SCRIPT, "sh", str(folder), agent, "--limit-s", str(limit_s), *options)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    word, *events = done.stdout.splitlines()
    return word, json.loads(events[-1])


@pytest.mark.root
def test_a_boot_is_healthy_once_its_guards_are_active(tmp_path: Path) -> None:
    word, event = judged(tmp_path, "up.service", "starts.service", "queued.service")
    assert (word, event["event"]) == ("healthy", "healthy"), event
    looks = {unit: (tmp_path / f"looks-{unit}.service").read_text().count("\n") for unit in ("up", "starts", "queued")}
    assert looks == {"up": 1, "starts": 3, "queued": 3}


@pytest.mark.root
def test_a_guard_that_is_down_fails_the_boot_at_once_and_a_slow_one_at_the_limit(tmp_path: Path) -> None:
    word, event = judged(tmp_path, "up.service", "down.service", "slow.service", limit_s=2)
    assert (word, event["event"]) == ("failed", "failed")
    assert event["why"] == [
        "the guard down.service is not active (failed)",
        "the guard slow.service is not active (activating)",
    ]
    assert (tmp_path / "looks-down.service").read_text() == "\n"
