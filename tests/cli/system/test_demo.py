# SPDX-License-Identifier: Apache-2.0
"""`ktrial demo` on the real machine, in a short form: as root, as an ordinary user, through sudo."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.demos import SHORT, check_found, demo
from tests.support.user import CHECKOUT, User, ordinary_user

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]
HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def test_settings_of_the_kernel_as_root(tmp_path: Path) -> None:
    """Whatever is found, it is found again, and the trial holds."""
    files = [HUGE, *map(Path, ("/proc/sys/vm/swappiness", "/proc/sys/vm/min_free_kbytes"))]
    before = [path.read_text() for path in files]
    ran = demo(tmp_path, *SHORT)
    assert ran.returncode == 0, ran.stderr
    check_found(ran.stdout)
    assert "thp:enabled=always" in ran.stdout
    assert "Everything has been restored:" in " ".join(ran.stdout.split())
    assert [path.read_text() for path in files] == before
    page = Path(re.search(r"^The report: (.*)$", ran.stdout, re.MULTILINE)[1])  # type: ignore[index]
    assert page.parent == tmp_path / "data" / "ktrial" / "reports"
    assert "<title>" in page.read_text(encoding="utf-8")
    again = subprocess.run(
        [".venv/bin/python", "-m", "ktrial", "trial", "recheck"],
        cwd=CHECKOUT,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert "is consistent" in again.stderr


def test_a_demo_that_is_interrupted_ends_with_its_object_too(tmp_path: Path) -> None:
    """Ctrl-C in the middle: what was found so far, no page, and every file as before."""
    before = HUGE.read_text()
    own = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_DATA_HOME": str(tmp_path / "data")}
    state = ("--machine-state", str(tmp_path / "machine"))
    command = [".venv/bin/python", "-m", "ktrial", *state, "demo", *SHORT, "--json"]
    with subprocess.Popen(
        command, cwd=CHECKOUT, env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        ended = 0
        while ended < 12 and (line := child.stdout.readline()):
            ended += json.loads(line)["event"] == "block-ended"
        child.send_signal(signal.SIGINT)
        rest, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    told = json.loads(rest.splitlines()[-1])["demo"]
    assert told["interrupted"]
    assert told["report"] is None
    assert not told["found"]["ended"]
    assert told["found"]["blocks"] >= 1
    assert told["before"] == told["after"]
    assert HUGE.read_text() == before


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user("demo") as user:
        yield user


def test_without_root(user: User) -> None:
    """Asked for or not: where sudo refuses it goes on without."""
    user.allow("/bin/true")
    ran = user.start("./ktrial", "demo", *SHORT)
    assert ran.returncode == 0, ran.stderr
    assert "sudo did not start the agent as root (exit status 1): running the demo without root" in ran.stderr
    check_found(ran.stdout)
    said = " ".join(ran.stdout.split())
    assert "huge_pages=never" in said
    assert "With root (sudo ./ktrial demo)" in said
    assert list((user.home / ".local/share/ktrial/reports").glob("demo-*.html"))
    assert user.files_of_others() == []


def test_sudo_writes_the_knobs_and_leaves_all_files_to_the_user(user: User) -> None:
    user.allow()
    before = HUGE.read_text()
    with tempfile.TemporaryDirectory(prefix="ktrial-state-") as folder:
        ran = user.start("sudo", "./ktrial", "--machine-state", f"{folder}/state", "demo", *SHORT)
    assert ran.returncode == 0, ran.stderr
    check_found(ran.stdout)
    assert "thp:enabled=always" in ran.stdout
    assert HUGE.read_text() == before
    assert user.files_of_others() == []
