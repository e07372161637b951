# SPDX-License-Identifier: Apache-2.0
"""`ktrial demo` on the real machine, in a short form: as root, as an ordinary user, where /sys cannot be written."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.demos import ARMS, demo, verdicts
from tests.support.user import CHECKOUT, User, ordinary_user

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine"), pytest.mark.xdist_group("demo")]
#: Short runs. As many blocks as in any demo: the tests beside these are what makes noise here.
SHORT = ("--run-s", "0.1")
#: A help is +100 % or more, a hurt about -40 %.
NOISY_PERCENT = 40
HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
#: As containers have it.
_READ_ONLY = """set -e
mount --bind /sys /sys && mount -o remount,bind,ro /sys
mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys
exec "$@"
"""


def placebo_width_percent(output: str) -> float:
    """How wide the interval of what changes nothing is."""
    found = re.search(r"^placebo .* ([+-][\d.]+) % to ([+-][\d.]+) % ", output, re.MULTILINE)
    return float(found[2]) - float(found[1]) if found is not None else math.inf


def check_found(output: str) -> None:
    """A help that helps and a hurt that hurts. (Of the others a claim is possible, at most once in a hundred demos.)

    The tests beside this one can take so much of the machine that what changes nothing varies by half; then it may be
    left open, and never the wrong way round. tests/alone asks the machine that has nothing else to do.
    """
    found = verdicts(output)
    assert list(found) == ARMS, output
    undecided = {"inconclusive"} if placebo_width_percent(output) > NOISY_PERCENT else set()
    assert found["help"] in {"better", *undecided}, output
    assert found["hurt"] in {"worse", *undecided}, output
    assert "single before/after pairs" in " ".join(output.split()), output


def test_settings_of_the_kernel_as_root(tmp_path: Path) -> None:
    """Whatever is found, it is found again, and the trial holds."""
    files = [HUGE, *map(Path, ("/proc/sys/vm/swappiness", "/proc/sys/vm/min_free_kbytes"))]
    before = [path.read_text() for path in files]
    ran = demo(tmp_path, *SHORT)
    assert ran.returncode == 0, ran.stderr
    check_found(ran.stdout)
    assert "thp:enabled=always" in ran.stdout
    assert "The machine is as before:" in " ".join(ran.stdout.split())
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
    assert "holds" in again.stderr


def test_a_container_that_writes_no_setting(tmp_path: Path) -> None:
    before = HUGE.read_text()
    ran = demo(
        tmp_path, *SHORT, before=("unshare", "--mount", "--propagation", "private", "sh", "-c", _READ_ONLY, "sh")
    )
    assert ran.returncode == 0, ran.stderr
    check_found(ran.stdout)
    said = " ".join(ran.stdout.split())
    assert "huge_pages=always" in said
    assert "Nothing of the system was changed" in said
    assert "mounted read-only" in said
    assert HUGE.read_text() == before


def test_events_for_programs(tmp_path: Path) -> None:
    """One object per line: visits, blocks, and at the end the verdicts; nothing else is on stdout."""
    page = tmp_path / "page.html"
    ran = demo(tmp_path, *SHORT, "--cap", "20", "--json", "-o", str(page), "--seed", "5")
    assert ran.returncode == 0, ran.stderr
    *events, last = [json.loads(line) for line in ran.stdout.splitlines()]
    kinds = [event["event"] for event in events]
    assert set(kinds) >= {"visit-began", "visit", "block-ended", "trial-ended"}
    assert kinds[-1] == "trial-ended"
    told = last["demo"]
    assert (last["event"], told["schema"], told["interrupted"]) == ("demo", "ktrial.demo/1", False)
    found = {one["arm"]: one["verdict"] for one in told["found"]["arms"]}
    judged = [one for one in events[-1]["judgement"]["judged"] if one["role"] == "primary"]
    assert found == {one["arm"]: one["verdict"] for one in judged}
    assert list(found) == ARMS
    assert told["before"] == told["after"]
    assert str(HUGE) in told["before"]
    assert told["report"] == str(page)
    assert "<title>" in page.read_text(encoding="utf-8")


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
        first = user.start("./ktrial", "--version")
        assert first.returncode == 0, first.stderr
        yield user


def test_without_root(user: User) -> None:
    """Asked for or not: where sudo refuses it goes on without."""
    user.allow("/bin/true")
    ran = user.start("./ktrial", "demo", *SHORT)
    assert ran.returncode == 0, ran.stderr
    assert "sudo did not start the agent as root (exit status 1): this is the demo without root" in ran.stderr
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
