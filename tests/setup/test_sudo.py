# SPDX-License-Identifier: Apache-2.0
"""`sudo ./ktrial` in a user's checkout leaves nothing of root's behind: a real user, sudo and environment."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.user import User, ordinary_user

# One user for all of them, whose checkout each test finds as the one before left it.
pytestmark = pytest.mark.xdist_group("sudo")


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user("setup", ready=False) as made:
        yield made


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


def test_a_rebuild_under_sudo_keeps_the_owner_and_a_root_shell_refuses(user: User) -> None:
    with (user.checkout / "agent/src/main.rs").open("a") as source:
        source.write("// changed\n")
    rebuilt = user.start("sudo", "./ktrial", "--version")
    assert "building the agent" in rebuilt.stderr
    assert user.files_of_others() == []
    with (user.checkout / "setup/requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    by_root = subprocess.run([user.checkout / "ktrial", "--version"], capture_output=True, text=True, check=False)
    assert (by_root.returncode, by_root.stdout) == (5, "")
    said, step = by_root.stderr.splitlines()
    assert said.startswith(f"ktrial: {user.checkout}")
    assert "can be changed by someone other than root, so ktrial runs nothing from it as root" in said
    assert step.startswith("  next: start ktrial as its owner, who may use sudo;")
    anew = user.start("sudo", "./ktrial", "--version")
    assert "making the Python environment" in anew.stderr
    assert user.files_of_others() == []
