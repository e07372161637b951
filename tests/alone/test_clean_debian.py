# SPDX-License-Identifier: Apache-2.0
"""A fresh clone sets itself up on a Debian that has nothing but its essential packages, and passes its own check."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.debian import DebianRoot
from tests.support.told_trials import messaging_trial

CHECKOUT = Path(__file__).resolve().parents[2]
CLONE = "/opt/ktrial"
MINUTES = {"five": 5, "ten": 10, "fifteen": 15, "twenty-five": 25}

pytestmark = [pytest.mark.xdist_group("debian"), pytest.mark.timeout(4500)]


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianRoot]:
    """The clean system with a clone of what is committed here."""
    assert os.geteuid() == 0, "this test makes and enters a system of its own: run ./check --full as root"
    folder = tmp_path_factory.mktemp("debian") / "root"
    root = DebianRoot.make(folder)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", CHECKOUT, folder / CLONE.lstrip("/")], check=True)
    yield root
    subprocess.run(["rm", "--recursive", "--force", "--one-file-system", folder], check=True)


def test_the_first_start_installs_what_is_missing_and_runs(debian: DebianRoot) -> None:
    first = debian.run("./ktrial", "--version", directory=CLONE, time_limit_s=900)
    assert first.returncode == 0, first.stdout
    assert first.stdout.splitlines()[-1].startswith("ktrial 0.")
    assert "rustc-web cargo-web" in first.stdout
    again = debian.run("./ktrial", "--version", directory=CLONE)
    assert again.stdout.splitlines() == first.stdout.splitlines()[-1:]


def test_the_doctor_answers_there(debian: DebianRoot) -> None:
    doctor = debian.run("./ktrial", "doctor", directory=CLONE)
    assert doctor.returncode == 0, doctor.stdout
    assert "Debian GNU/Linux 12" in doctor.stdout


@pytest.mark.parametrize("name", sorted(path.stem for path in (CHECKOUT / "docs/tutorials").glob("*.md")))
def test_a_tutorial_can_be_followed_there_in_its_time(debian: DebianRoot, name: str) -> None:
    text = (CHECKOUT / f"docs/tutorials/{name}.md").read_text(encoding="utf-8")
    minutes = MINUTES[" ".join(text.split()).partition("takes about ")[2].partition(" minutes")[0]]
    steps = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (debian.folder / "usr/local/bin/ktrial").unlink(missing_ok=True)
    (debian.folder / "usr/local/bin/ktrial").symlink_to(f"{CLONE}/ktrial")
    (debian.folder / "root" / name).mkdir()
    ran = debian.run("sh", "-ec", "".join(steps), directory=f"/root/{name}", time_limit_s=60 * minutes)
    assert ran.returncode == 0, ran.stdout[-5000:]


def test_what_was_published_elsewhere_comes_out_again_there(debian: DebianRoot, tmp_path: Path) -> None:
    """From a store that is empty, by the script that lies beside the data."""
    store = Store(Database.open(str(tmp_path / "a.db")))
    told = messaging_trial(store).trial
    store.close()
    output = debian.folder / "opt/published"
    publish = ("--store", tmp_path / "a.db", "publish", told, "--data", "-o", output)
    subprocess.run([CHECKOUT / "ktrial", *publish], check=True)
    (debian.folder / "usr/local/bin/ktrial").unlink(missing_ok=True)
    (debian.folder / "usr/local/bin/ktrial").symlink_to(f"{CLONE}/ktrial")
    ran = debian.run("sh", "/opt/published/reproduce.sh")
    assert (ran.returncode, ran.stdout.endswith("all equal\n")) == (0, True), ran.stdout


def test_the_whole_check_passes_there(debian: DebianRoot) -> None:
    checked = debian.run("./check", directory=CLONE, time_limit_s=3600)
    assert checked.returncode == 0, checked.stdout[-20000:]
    assert " passed" in checked.stdout.splitlines()[-1]


def test_the_first_start_through_sudo_sets_up_what_is_the_users(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("sudo") / "root"
    root = DebianRoot.make(folder, "sudo")
    assert root.run("useradd", "--create-home", "--shell", "/bin/sh", "user").returncode == 0
    (folder / "etc/sudoers.d/user").write_text("user ALL=(ALL) NOPASSWD: ALL\n")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", CHECKOUT, folder / "home/user/ktrial"], check=True)
    assert root.run("chown", "--recursive", "user:", "/home/user").returncode == 0
    start = ("su", "user", "-c", "sudo ./ktrial --version")
    first = root.run(*start, directory="/home/user/ktrial", time_limit_s=1500)
    assert (first.returncode, first.stdout.splitlines()[-1][:9]) == (0, "ktrial 0."), first.stdout[-5000:]
    again = root.run("su", "user", "-c", "./ktrial --version", directory="/home/user/ktrial")
    assert again.stdout.splitlines() == first.stdout.splitlines()[-1:]
    assert root.run("find", "/home/user", "!", "-user", "user").stdout == ""
    subprocess.run(["rm", "--recursive", "--force", "--one-file-system", folder], check=True)
