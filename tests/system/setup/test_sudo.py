# SPDX-License-Identifier: Apache-2.0
"""`sudo ./ktrial` in a user's checkout leaves nothing of root's behind: a real user, sudo and environment."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.setup.fake_checkout import CHECKOUT

# One user for all of them, whose checkout each test finds as the one before left it.
pytestmark = pytest.mark.xdist_group("sudo")

# Stands for a compiler that takes minutes: it hands out the agent that is built already.
_CARGO = """#!/bin/sh
mkdir -p "target/$CARGO_BUILD_TARGET/release"
cp "$HOME/built-agent" "target/$CARGO_BUILD_TARGET/release/ktrial-agent"
"""
_RUSTC = """#!/bin/sh
case $1 in -vV) echo 'host: x86_64-unknown-linux-gnu' ;; *) echo 'rustc 1.85.0 (0 2025-01-01)' ;; esac
"""


@dataclass(frozen=True)
class User:
    """An ordinary user with a checkout in the home directory, who may use sudo without a password."""

    name: str
    home: Path
    uid: int

    @property
    def checkout(self) -> Path:
        return self.home / "ktrial"

    def start(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as this user, in the checkout."""
        become = ["setpriv", "--reuid", self.name, "--regid", self.name, "--init-groups", "--reset-env", "--"]
        return subprocess.run(
            [*become, *command],
            cwd=self.checkout,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def files_of_others(self) -> list[str]:
        """Everything in the home directory, the checkout included, that somebody else owns."""
        return [
            str(Path(folder) / name)
            for folder, folders, files in os.walk(self.home)
            for name in [*folders, *files]
            if (Path(folder) / name).lstat().st_uid != self.uid
        ]


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    if os.geteuid() != 0:
        pytest.skip("makes a user and a rule of sudo: needs root")
    name = f"ktrial-test-{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix="ktrial-home-"))
    folder.chmod(0o755)
    home = folder / "home"
    rule = Path("/etc/sudoers.d") / name
    try:
        subprocess.run(["useradd", "--create-home", "--home-dir", home, "--user-group", name], check=True)
        rule.write_text(f"{name} ALL=(ALL) NOPASSWD: ALL\n")
        rule.chmod(0o440)
        made = User(name, home, pwd.getpwnam(name).pw_uid)
        fill(made)
        yield made
    finally:
        rule.unlink(missing_ok=True)
        subprocess.run(["userdel", "--force", name], check=True)
        shutil.rmtree(folder)


def fill(user: User) -> None:
    """Put a checkout without any set-up, and a compiler, into the home directory."""
    leave_out = shutil.ignore_patterns("__pycache__", "target", "*.egg-info")
    user.checkout.mkdir()
    shutil.copy2(CHECKOUT / "ktrial", user.checkout)
    for name in ("setup", "agent", "src"):
        shutil.copytree(CHECKOUT / name, user.checkout / name, ignore=leave_out)
    shutil.copy2(CHECKOUT / ".setup/bin/ktrial-agent", user.home / "built-agent")
    tools = user.home / ".cargo/bin"
    tools.mkdir(parents=True)
    for name, script in (("cargo", _CARGO), ("rustc", _RUSTC)):
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    subprocess.run(["chown", "--recursive", f"{user.name}:{user.name}", user.home], check=True)


def test_the_first_start_under_sudo_sets_up_for_the_user(user: User) -> None:
    first = user.start("sudo", "./ktrial", "--version")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("ktrial ")
    assert "making the Python environment" in first.stderr
    assert user.files_of_others() == []
    for command in (["sudo", "./ktrial", "--version"], ["./ktrial", "--version"]):
        later = user.start(*command)
        assert (later.returncode, later.stderr, later.stdout) == (0, "", first.stdout)
    assert user.files_of_others() == []


def test_a_verb_under_sudo_leaves_nothing_of_root(user: User) -> None:
    listed = user.start("sudo", "./ktrial", "knobs", "vm.swappiness")
    assert listed.returncode == 0, listed.stderr
    assert "vm.swappiness" in listed.stdout
    assert user.files_of_others() == []


def test_a_module_changed_since_is_not_compiled_by_root(user: User) -> None:
    for module in (user.checkout / "src/ktrial").rglob("*.py"):
        os.utime(module)
    assert user.start("sudo", "./ktrial", "--version").returncode == 0
    assert user.files_of_others() == []


def test_a_rebuild_under_sudo_and_a_root_shell_keep_the_owner(user: User) -> None:
    with (user.checkout / "agent/src/main.rs").open("a") as source:
        source.write("// changed\n")
    rebuilt = user.start("sudo", "./ktrial", "--version")
    assert "building the agent" in rebuilt.stderr
    assert user.files_of_others() == []
    with (user.checkout / "setup/requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    by_root = subprocess.run([user.checkout / "ktrial", "--version"], capture_output=True, text=True, check=True)
    assert "making the Python environment" in by_root.stderr
    assert user.files_of_others() == []
