# SPDX-License-Identifier: Apache-2.0
"""`reproduce.sh` of what was published works for somebody who has nothing of the machine that made it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.alone import the_machine
from tests.support.terminal import KTRIAL

CHECKOUT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]
SLOWER = ("sh", "-c", 'echo "number: ${NUMBER:-7}"')


def run(home: Path, *argv: str | Path, ok: bool = True) -> subprocess.CompletedProcess[str]:
    """A command for which `ktrial` is found, at a home of its own."""
    commands = home / "bin"
    if not commands.is_dir():
        commands.mkdir(parents=True)
        (commands / "ktrial").symlink_to(CHECKOUT / "ktrial")
    environment = {"PATH": f"{commands}:{os.environ['PATH']}", "HOME": str(home), "COLUMNS": "100"}
    ran = subprocess.run(argv, env=environment, cwd=home, capture_output=True, text=True, check=False, timeout=240)
    assert not ok or ran.returncode == 0, ran.stderr
    return ran


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody who has published a trial, with its data and without."""
    home = tmp_path_factory.mktemp("author")
    words = ("--env", "NUMBER=9", "--budget", "quick", "--settle", "0s", "--no-profile", "--anyway")
    # Made before any test has the machine by its own fixture.
    with the_machine():
        run(home, *KTRIAL, "try", *words, "--metric", "number_ms:lower=number: ([0-9]+)", "--", *SLOWER)
    listed = run(home, *KTRIAL, "trial", "list", "--json").stdout
    (trial,) = [one["trial"] for one in json.loads(listed)["trials"]]
    run(home, *KTRIAL, "publish", trial, "--data", "-o", "with")
    run(home, *KTRIAL, "publish", trial, "-o", "without")
    return home


def test_with_the_data_every_number_comes_out_again(author: Path, tmp_path: Path) -> None:
    ran = run(tmp_path, "sh", author / "with/reproduce.sh")
    assert ran.stdout.endswith("all equal\n")
    assert not list(tmp_path.rglob("results.db")), "nothing of it is kept"


def test_without_them_the_trial_is_measured_anew(author: Path, tmp_path: Path) -> None:
    ran = run(tmp_path, "sh", author / "without/reproduce.sh")
    assert "worse" in ran.stdout
    assert "is consistent: the seed gives every order" in ran.stderr


def test_a_number_that_was_changed_is_named(author: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    run(tmp_path, "cp", "-r", author / "with", changed)
    path = changed / "comparison.json"
    path.write_text(path.read_text().replace('"verdict": "worse"', '"verdict": "better"'))
    ran = run(tmp_path, "sh", changed / "reproduce.sh", ok=False)
    assert ran.returncode == 1
    assert "verdict" in ran.stdout
