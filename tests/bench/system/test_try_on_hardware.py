# SPDX-License-Identifier: Apache-2.0
"""The script for hardware that no test has: its short form as an ordinary user here, and a bundle that it made."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktrial.recordings.ktrial import read_recording
from tests.support.tree import FakeRoot
from tests.support.user import CHECKOUT, User, ordinary_user

SCRIPT = "docs/try-on-hardware.sh"
RECORDED = CHECKOUT / "examples/hardware/virtual-machine.tar.zst"
MEASURED = ["agent-fileio-read-random-cold", "agent-spin", "agent-wakeup-timer"]
#: The facts and what doctor says: each is the output of a command.
TOLD = ["sh", "sh"]

pytestmark = pytest.mark.xdist_group("machine")


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user("hardware") as found:
        (found.checkout / "docs").mkdir()
        shutil.copy2(CHECKOUT / SCRIPT, found.checkout / "docs")
        subprocess.run(["chown", "-R", f"{found.name}:", found.checkout / "docs"], check=True)
        yield found


def sessions(bundle: Path, root: FakeRoot, folder: Path) -> list[dict[str, Any]]:
    """What it holds, as another machine sees it."""
    store = ("--store", str(folder / "look.db"))
    brought = root.run(*store, "import", str(bundle))
    assert brought.status == 0, brought.err
    listed = root.run(*store, "runs", "--json")
    assert listed.status == 0, listed.err
    return list(listed.json["sessions"])


def kept(bundle: Path, name: str) -> bytes:
    """A file that it holds."""
    whole = subprocess.run(["zstd", "-dc", bundle], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(whole)) as files:
        file = files.extractfile(name)
        assert file is not None
        return file.read()


def test_what_this_machine_has_is_measured_and_the_rest_is_named(user: User, root: FakeRoot, tmp_path: Path) -> None:
    before = set(user.home.iterdir())
    done = user.start("sh", SCRIPT, "--quick", "out.tar.zst")
    assert done.returncode == 0, done.stderr
    assert "out.tar.zst contains: facts; doctor; wake-ups; computing; reads of the disk" in done.stdout
    for step in ("energy at rest", "battery at rest", "disks after idle"):
        assert f"== {step}: not on this machine" in done.stdout
    assert "there is no /sys/class/powercap/*/energy_uj here" in done.stderr
    assert not [path for path in set(user.home.iterdir()) - before if "hardware" in path.name]
    assert user.files_of_others() == []
    found = sessions(user.checkout / "out.tar.zst", root, tmp_path)
    assert sorted(one["suite"] for one in found) == MEASURED + TOLD


@pytest.fixture
def session_folder(user: User) -> Iterator[None]:
    """What systemd makes at a login: a tmpfs of this user's own. sudo takes the variable that names it away."""
    folder = Path(f"/run/user/{user.uid}")
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"uid={user.uid},mode=0700", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


@pytest.mark.root
@pytest.mark.usefixtures("session_folder")
def test_with_root_the_disk_is_woken_up_and_traced(user: User, root: FakeRoot, tmp_path: Path) -> None:
    done = user.start("sh", SCRIPT, "--quick", "--root", "traced.tar.zst")
    assert done.returncode == 0, done.stderr
    assert "reads of the disk; disks after idle\n" in done.stdout, done.stderr
    assert user.files_of_others() == []
    bundle = user.checkout / "traced.tar.zst"
    found = sessions(bundle, root, tmp_path)
    (watched,) = (one["session"] for one in found if one["suite"] == "watch")
    shown = root.run("--store", str(tmp_path / "look.db"), "show", f"{watched}/1", "--json")
    digest = shown.json["runs"][0]["raw"]["files/recording.ktr"]
    found_idle = [one.after_idle for one in read_recording(kept(bundle, f"raw/{digest}"), "it").latencies.values()]
    assert any(found_idle), "no request came to a disk that had had none for 50 ms"


@pytest.mark.parametrize(
    "words, status, says",
    [
        (("out.tar.zst",), 2, "out.tar.zst is there already"),
        (("--fast",), 2, "usage: sh docs/try-on-hardware.sh"),
        (("a", "b"), 2, "usage: sh docs/try-on-hardware.sh"),
    ],
)
def test_it_overwrites_nothing_and_knows_its_options(
    user: User, words: tuple[str, ...], status: int, says: str
) -> None:
    (user.checkout / "out.tar.zst").touch()
    done = user.start("sh", SCRIPT, *words)
    assert (done.returncode, says in done.stderr) == (status, True), done.stderr


def test_root_is_sent_away() -> None:
    done = subprocess.run(["sh", CHECKOUT / SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, "run it as yourself" in done.stderr) == (5, True)


def test_a_bundle_that_was_sent_back_is_read(root: FakeRoot, tmp_path: Path) -> None:
    found = sessions(RECORDED, root, tmp_path)
    assert sorted(one["suite"] for one in found) == MEASURED + TOLD
    told: dict[str, dict[str, Any]] = {}
    for one in found:
        shown = root.run("--store", str(tmp_path / "look.db"), "show", f"{one['session']}/1", "--json")
        assert shown.status == 0, shown.err
        (run,) = (run for run in shown.json["runs"] if run["number"] == 1)
        assert "telemetry.parquet" in run["raw"]
        if one["suite"] in MEASURED:
            assert (one["label"], one["runs"]) == ("hardware", {"ok": 3})
            after = run["document"]["conditions"]["readings_after"]
            assert (after["power_source"], after["governor"], after["temperature_c"]) == ("mains", "none", "none")
        else:
            printed = json.loads(kept(RECORDED, f"raw/{run['raw']['stdout']}"))
            told[printed["schema"]] = printed
    facts = told["ktrial.facts/1"]["facts"]
    assert {"nvme.controllers", "cpufreq.policies", "gpu.cards", "battery.level", "thermal.zones"} <= set(facts)
    assert told["ktrial.doctor/1"]["machine"]


def test_the_bundle_tells_no_names(tmp_path: Path) -> None:
    assert RECORDED.stat().st_size < 300_000
    whole = subprocess.run(["zstd", "-dc", RECORDED], capture_output=True, check=True).stdout
    assert re.search(rb"(?<![\w.-])/(work|root)/|ktrial-hardware-", whole) is None
