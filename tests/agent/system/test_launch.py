# SPDX-License-Identifier: Apache-2.0
"""What root runs when `./ktrial` is started as root: through the real sudo, doas and pkexec, and by root itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.hostile import evil_folder, start_without_sudo, surroundings_in
from tests.support.terminal import eventually
from tests.support.user import User, ordinary_user

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]

ASKERS = ["sudo", "lax-sudo", "doas", "pkexec"]
#: In a module of the head: notes as whom it runs, and what it was started with.
SPY = """
import json as _json, os as _os
with open("/proc/self/status") as _file:
    _status = dict(_line.rstrip("\\n").split(":\\t", 1) for _line in _file if ":\\t" in _line)
_open = [_os.readlink(f"/proc/self/fd/{{_n}}") for _n in range(3, 100) if _os.path.lexists(f"/proc/self/fd/{{_n}}")]
with open({notes!r}, "a") as _file:
    print(_json.dumps({{"status": _status, "environment": dict(_os.environ), "open": _open}}), file=_file)
"""


@pytest.fixture(scope="module")
def made() -> Iterator[User]:
    with ordinary_user("launch") as user:
        yield user


@pytest.fixture
def user(made: User) -> User:
    made.allow()
    return made


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may look into."""
    folder = Path(tempfile.mkdtemp(prefix="ktrial-launch-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def notes(place: Path) -> Path:
    """A file that everybody may write."""
    file = place / "notes"
    file.touch()
    file.chmod(0o666)
    return file


@pytest.fixture
def planted(user: User, notes: Path) -> Iterator[Path]:
    """A third user may write the head's first module, and did."""
    module = user.checkout / "src/ktrial/__init__.py"
    before, mode = module.read_bytes(), module.stat().st_mode & 0o777
    module.chmod(0o666)
    module.write_bytes(before + SPY.format(notes=str(notes)).encode())
    # Bytecode of the same second and size would be taken for that of the changed module.
    forget_bytecode(module)
    yield module
    module.write_bytes(before)
    module.chmod(mode)
    forget_bytecode(module)


def forget_bytecode(module: Path) -> None:
    for file in module.parent.glob(f"__pycache__/{module.stem}.*.pyc"):
        file.unlink()


def noted(notes: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in notes.read_text().splitlines()]


def start_through(
    asker: str, user: User, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`./ktrial` through one of the programs that make a user root; the lax ones keep the caller's environment."""
    command = (str(user.checkout / "ktrial"), *words)
    if "sudo" in asker:
        user.allow("ALL", *(("!secure_path", "!env_reset") if asker == "lax-sudo" else ()))
        return user.start("/usr/bin/sudo", *command, environment=environment)
    program = f"/usr/bin/{asker}"
    return start_without_sudo(user, asker, program, *command, environment=environment, doas_option="keepenv")


def check_rights(user: User, seen: Mapping[str, Any], checkout: Path | None = None) -> None:
    """Nothing of root's is left to a process."""
    status = seen["status"]
    assert set(status["Uid"].split()) == {str(user.uid)}
    assert set(status["Gid"].split()) == {str(user.gid)}
    groups = subprocess.check_output(["id", "-G", user.name], text=True)
    assert sorted(status["Groups"].split()) == sorted(groups.split())
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0, name
    # The socket of the helper, and nothing that root had opened.
    assert len([link for link in seen["open"] if link.startswith("socket:")]) == 1
    own = ("socket:", str(checkout or user.checkout), "/proc/")
    assert [link for link in seen["open"] if not link.startswith(own)] == []


@pytest.mark.parametrize("asker", ASKERS)
def test_a_module_that_everybody_can_write_never_runs_as_root(
    user: User, planted: Path, notes: Path, asker: str
) -> None:
    ran = start_through(asker, user, "why", "vm.swappiness")
    assert ran.returncode == 0, ran.stderr
    (seen,) = noted(notes)
    check_rights(user, seen)
    assert user.files_of_others() == []


@pytest.mark.parametrize("asker", ASKERS)
def test_nothing_of_hostile_surroundings_reaches_root_or_leads_the_head_elsewhere(
    user: User, planted: Path, notes: Path, place: Path, asker: str
) -> None:
    marks = place / "marks"
    marks.touch()
    marks.chmod(0o666)
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    evil = evil_folder(place, marks)
    ran = start_through(asker, user, "why", "vm.swappiness", environment=surroundings_in(evil, elsewhere))
    assert ran.returncode == 0, ran.stderr
    (seen,) = noted(notes)
    check_rights(user, seen)
    environment = seen["environment"]
    assert environment["HOME"] == str(user.home)
    assert environment["USER"] == environment["LOGNAME"] == user.name
    led = {name for name, value in environment.items() if str(place) in value}
    assert led <= {"PATH"}
    system, _, given = environment["PATH"].partition(str(evil))
    assert system.startswith("/usr/sbin:/usr/bin:") or not given
    dropped = ("PYTHON", "LD_", "XDG_", "TMPDIR", "SUDO_", "DOAS_", "PKEXEC_")
    assert [name for name in environment if name.startswith(dropped)] == []
    assert [line for line in marks.read_text().splitlines() if line.endswith(" 0")] == []
    assert list(elsewhere.iterdir()) == []
    assert user.files_of_others() == []


@pytest.mark.parametrize("asker", ["lax-sudo", "doas"])
def test_who_asks_for_root_cannot_become_a_third_user(user: User, planted: Path, notes: Path, asker: str) -> None:
    """sudo and doas each say who asked; what the caller says beside that is not believed."""
    forged = {"SUDO_UID": "1", "DOAS_USER": "daemon", "PKEXEC_UID": "1"}
    ran = start_through(asker, user, "why", "vm.swappiness", environment=forged)
    assert (ran.returncode, ran.stdout) == (5, "")
    assert "two users asked for root" in ran.stderr
    assert "  next: unset SUDO_UID, PKEXEC_UID or DOAS_USER" in ran.stderr
    assert noted(notes) == []


def test_the_set_up_under_sudo_is_the_users(user: User, notes: Path) -> None:
    script = user.checkout / "setup/ready.sh"
    before = script.read_bytes()
    try:
        script.write_bytes(before + f'\necho "$(id -u)" >>{notes}\n'.encode())
        ran = user.start("sudo", "./ktrial", "--version")
    finally:
        script.write_bytes(before)
    assert ran.returncode == 0, ran.stderr
    assert set(notes.read_text().split()) == {str(user.uid)}
    assert user.start("./ktrial", "--version").returncode == 0


def test_root_installs_no_package_that_the_set_up_has_no_need_of(user: User) -> None:
    """The set-up is a file of the user's; what it says is what a program of the user's says."""
    script = user.checkout / "setup/prepare.sh"
    before = script.read_bytes()
    try:
        script.write_text('[ "$KTRIAL_TELL_PACKAGES" = yes ] && echo gcc sl && exit 75\n')
        ran = user.start("sudo", "./ktrial", "--version")
    finally:
        script.write_bytes(before)
        assert user.start("./ktrial", "--version").returncode == 0
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "the set-up names the package sl, which it does not need" in ran.stderr
    assert "installing" not in ran.stderr


def test_what_root_runs_is_a_copy_of_its_own(user: User) -> None:
    assert user.start("sudo", "./ktrial", "status").returncode == 0
    copy = Path("/run/ktrial/ktrial-agent")
    for path in (copy, copy.parent):
        assert (path.stat().st_uid, path.stat().st_mode & 0o7777) == (0, 0o755)
    assert copy.read_bytes() == (user.checkout / ".setup/bin/ktrial-agent").read_bytes()
    # Whoever gets there first, root runs nothing that others can change.
    copy.parent.chmod(0o777)
    try:
        refused = user.start("sudo", "./ktrial", "status")
    finally:
        copy.parent.chmod(0o755)
    assert refused.returncode == 5
    assert f"{copy.parent} can be changed by someone other than root" in refused.stderr


# ---- root for itself


@pytest.fixture(scope="module")
def copied(made: User) -> Iterator[Path]:
    """A checkout of root's, set up, with a spy in its first module that notes in the file `notes` beside it."""
    folder = Path(tempfile.mkdtemp(prefix="ktrial-roots-"))
    folder.chmod(0o755)
    checkout = folder / "ktrial"
    shutil.copytree(made.checkout, checkout, symlinks=True)
    module = checkout / "src/ktrial/__init__.py"
    module.write_text(module.read_text() + SPY.format(notes=str(folder / "notes")))
    forget_bytecode(module)
    subprocess.run(["chown", "--recursive", "0:0", checkout], check=True)
    (checkout / ".setup/stamp").write_text(f"{checkout}\n")
    yield checkout
    shutil.rmtree(folder)


@pytest.fixture
def roots(copied: Path) -> Path:
    """The same, and nothing is noted."""
    notes = copied.parent / "notes"
    notes.write_text("")
    notes.chmod(0o666)
    return copied


def by_root(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As nobody had asked for root."""
    asked = {"SUDO_UID", "PKEXEC_UID", "DOAS_USER"}
    environment = {name: value for name, value in os.environ.items() if name not in asked}
    return subprocess.run(
        [checkout / "ktrial", *(words or ("--version",))],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "name",
    [
        *("ktrial", "setup", "setup/ready.sh", ".setup", ".setup/bin/ktrial-agent", "src", "src/ktrial"),
        *("src/ktrial/__init__.py", "src/ktrial/cli/verbs", ".venv/lib/python3.*/site-packages"),
        ".venv/lib/python3.*/site-packages/click/__init__.py",
    ],
)
@pytest.mark.parametrize("how", ["everybody", "a group", "an owner"])
def test_root_runs_nothing_that_others_can_change(roots: Path, name: str, how: str) -> None:
    (path,) = roots.glob(name)
    before = path.stat()
    try:
        if how == "an owner":
            os.chown(path, 1, -1)
        elif how == "a group":
            os.chown(path, -1, 1)
            path.chmod(before.st_mode | 0o020)
        else:
            path.chmod(before.st_mode | 0o002)
        refused = by_root(roots, "why", "vm.swappiness")
    finally:
        os.chown(path, 0, 0)
        path.chmod(before.st_mode & 0o7777)
    assert (refused.returncode, refused.stdout) == (5, ""), refused.stderr
    said, step = refused.stderr.splitlines()
    assert said.startswith(f"ktrial: {path.resolve()} can be changed by someone other than root")
    assert step.startswith("  next: start ktrial as its owner, who may use sudo")
    assert "chown -R 0:0" in step
    assert noted(roots.parent / "notes") == []


def test_root_runs_what_is_its_own_and_stays_root(roots: Path) -> None:
    ran = by_root(roots, "why", "vm.swappiness")
    assert ran.returncode == 0, ran.stderr
    (seen,) = noted(roots.parent / "notes")
    assert set(seen["status"]["Uid"].split()) == {"0"}


def test_a_user_under_sudo_may_use_a_checkout_of_roots(user: User, roots: Path) -> None:
    ran = user.start("sudo", str(roots / "ktrial"), "why", "vm.swappiness")
    assert ran.returncode == 0, ran.stderr
    (seen,) = noted(roots.parent / "notes")
    check_rights(user, seen, roots)


def test_the_set_up_of_a_checkout_of_roots_is_led_nowhere_by_the_user(user: User, roots: Path, place: Path) -> None:
    marks = place / "marks"
    marks.touch()
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    surroundings = surroundings_in(evil_folder(place, marks), elsewhere)
    script = roots / "setup/prepare.sh"
    before, led = script.read_bytes(), place / "led"
    script.write_text(f"find --version >/dev/null; env >{led}\n")
    try:
        user.allow("ALL", "!secure_path", "!env_reset")
        ran = user.start("/usr/bin/sudo", str(roots / "ktrial"), "--version", environment=surroundings)
    finally:
        script.write_bytes(before)
        (roots / ".setup/stamp").touch()
    assert ran.returncode == 0, ran.stderr
    assert str(place) not in led.read_text()
    assert [line for line in marks.read_text().splitlines() if line.endswith(" 0")] == []


# ---- the helper, and the end


def helpers() -> dict[int, int]:
    """Helpers that lend root, and the heads that they lend it to."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:3] == [b"ktrial-agent", b"lend", b"--head"]:
            found[int(folder.name)] = int(words[3])
    return found


@pytest.mark.parametrize(
    "sent,status", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, None)]
)
def test_signals_and_exit_status_pass_and_the_helper_ends_with_the_head(
    user: User, sent: signal.Signals, status: int | None
) -> None:
    before = helpers()
    command = [*user.become(), "sudo", "./ktrial", "bench", "-n", "1", "--", "sleep", "60"]
    running = subprocess.Popen(
        command,
        cwd=user.checkout,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert eventually(lambda: len(helpers()) > len(before))
    ((helper, head),) = set(helpers().items()) - set(before.items())
    # The launcher's own command line also names the program that it starts.
    assert eventually(lambda: f"Uid:\t{user.uid}\t{user.uid}" in Path(f"/proc/{head}/status").read_text())
    assert eventually(lambda: b"__main__.py" in Path(f"/proc/{head}/cmdline").read_bytes())
    assert "Uid:\t0\t0" in Path(f"/proc/{helper}/status").read_text()
    children = Path(f"/proc/{head}/task/{head}/children")
    assert eventually(lambda: len(children.read_text().split()) > 1), "the program runs"
    os.kill(head if sent == signal.SIGKILL else running.pid, sent)
    out, err = running.communicate(timeout=60)
    assert status is None or running.returncode == status, (out, err)
    assert "Traceback" not in err
    assert eventually(lambda: helper not in helpers())
    assert user.files_of_others() == []


def test_the_exit_status_of_the_head_is_that_of_the_start(user: User) -> None:
    for words, status in ((("plan", "no.such.knob"), 2), (("--version",), 0)):
        assert user.start("sudo", "./ktrial", *words).returncode == status
