# SPDX-License-Identifier: Apache-2.0
"""Exported files through parsers that this system may not have: udev of Debian 13, and TuneD, which must not run here.

Their packages are unpacked into a folder and not installed.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ktrial.tuning.exporters import export, targets
from ktrial.tuning.exports.model import LastingSetting
from tests.support.exports import NASTY, SETTINGS, own_knob, profile

TARGETS = targets()
MIRROR = "http://deb.debian.org/debian"


def ran(*argv: str | Path, **environment: str) -> str:
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=600, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}{done.stderr}"
    return done.stdout


def written(name: str, chosen: list[LastingSetting], folder: Path) -> Path:
    """The only file of a target."""
    ((path, text),) = export(profile(chosen), [TARGETS[name]], TARGETS.values())[TARGETS[name]].items()
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text, encoding="utf-8")
    return folder / path


def hostile(name: str) -> list[LastingSetting]:
    """The samples and a setting of each hostile value, as far as the target doesn't refuse them."""
    place = "/sys/block/{block}/queue/scheduler"
    knob = own_knob("own", place)
    nasty = [LastingSetting(knob=knob, text=text, place=place, pattern=f"d{at}") for at, text in enumerate(NASTY)]
    return [one for one in (*SETTINGS, *nasty) if TARGETS[name].objection(one) is None]


@pytest.mark.root
@pytest.mark.timeout(900)
def test_udevadm_of_debian_13_verifies_the_rules(tmp_path: Path) -> None:
    root = tmp_path / "trixie"
    ran("mmdebstrap", "--variant=extract", "--include=udev", "trixie", root, MIRROR)
    library = root / "usr/lib/x86_64-linux-gnu"
    loader = (root / "usr/lib64/ld-linux-x86-64.so.2", "--library-path", f"{library}:{library / 'systemd'}")
    file = written("udev", hostile("udev"), tmp_path / "out")
    said = ran(*loader, root / "usr/bin/udevadm", "verify", "--no-style", file)
    assert "Success: 1" in said
    file.write_text(file.read_text() + 'KERNEL="x", NONSENSE=="y"\n')
    broken = subprocess.run([*loader, root / "usr/bin/udevadm", "verify", file], capture_output=True, check=False)
    assert broken.returncode != 0


#: Reads a profile as TuneD does, and expands variables and functions in it.
_TUNED = """
import json, sys
from tuned.profiles.loader import Loader
from tuned.profiles.variables import Variables
config = Loader(None, None, None, None, None)._load_config_data(sys.argv[1])
print(json.dumps({name: {key: Variables().expand(text) for key, text in own.items()} for name, own in config.items()}))
"""


@pytest.mark.timeout(900)
def test_tuned_reads_the_values(tmp_path: Path) -> None:
    packages = ("tuned", "python3-configobj", "python3-pyudev", "python3-six")
    download = 'cd "$0" && apt-get download "$@" && for file in *.deb; do dpkg -x "$file" root || exit; done'
    ran("sh", "-c", download, tmp_path, *packages)
    python = {"PYTHONPATH": str(tmp_path / "root/usr/lib/python3/dist-packages"), "LC_ALL": "C.UTF-8"}
    chosen = hostile("tuned")
    file = written("tuned", chosen, tmp_path / "out")
    told = json.loads(ran("/usr/bin/python3", "-c", _TUNED, file, **python))
    assert set(told) == {"main", "sysctl", "sysfs", "bootloader"}
    paths = {one.path: one.text for one in chosen if one.form not in {"sysctl", "boot"}}
    assert told["sysfs"] == paths
    assert told["sysctl"] == {"vm.swappiness": "10", "net.ipv4.tcp_rmem": "4096 131072 6291456"}
    assert told["bootloader"]["cmdline_ktrial_preempt"] == "+preempt=full"
