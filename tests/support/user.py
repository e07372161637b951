# SPDX-License-Identifier: Apache-2.0
"""An ordinary user of this machine with a checkout of ktrial and with sudo rules chosen by the test."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

# Replaces a compiler that takes minutes: it outputs the agent that is already built.
_CARGO = """#!/bin/sh
mkdir -p "target/$CARGO_BUILD_TARGET/release"
cp "$HOME/built-agent" "target/$CARGO_BUILD_TARGET/release/ktrial-agent"
"""
_RUSTC = """#!/bin/sh
case $1 in -vV) echo 'host: x86_64-unknown-linux-gnu' ;; *) echo 'rustc 1.85.0 (0 2025-01-01)' ;; esac
"""
# Set-up checkouts for the users of one run of the tests.
_SET_UPS = CHECKOUT / ".setup" / "users"


@dataclass(frozen=True)
class User:
    """An ordinary user with a checkout in the home directory, who may use sudo without a password."""

    name: str
    home: Path
    uid: int

    @property
    def checkout(self) -> Path:
        return self.home / "ktrial"

    @property
    def gid(self) -> int:
        return pwd.getpwuid(self.uid).pw_gid

    @property
    def sudo_log(self) -> Path:
        """The file in which sudo logs what this user ran."""
        return self.home.parent / "sudo.log"

    def become(self) -> list[str]:
        """Return the start of a command that runs the rest as this user."""
        return ["setpriv", "--reuid", self.name, "--regid", self.name, "--init-groups", "--reset-env", "--"]

    def start(
        self, *command: str, directory: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as this user, in the checkout, without a terminal."""
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        return subprocess.run(
            [*self.become(), *(["/usr/bin/env", *variables] if variables else []), *command],
            cwd=directory or self.checkout,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    def files_of_others(self) -> list[str]:
        """Return everything in the home directory, the checkout included, that somebody else owns."""
        return [
            str(Path(folder) / name)
            for folder, folders, files in os.walk(self.home)
            for name in [*folders, *files]
            if (Path(folder) / name).lstat().st_uid != self.uid
        ]

    def allow(self, what: str = "ALL", *defaults: str) -> None:
        """Let this user run `what` through sudo without a password, with these `Defaults`."""
        rule = self._rule
        lines = [
            f"Defaults:{self.name} {option}" for option in ("logfile=" + str(self.sudo_log), "!requiretty", *defaults)
        ]
        rule.unlink(missing_ok=True)
        rule.write_text("\n".join([*lines, f"{self.name} ALL=(ALL) NOPASSWD: {what}", ""]))
        rule.chmod(0o440)
        subprocess.run(["visudo", "--check", "--quiet", "--file", rule], check=True)

    def _set_up(self) -> None:
        """Set the checkout up: the first user of a run of the tests does it, others get a copy of the result."""
        made = _SET_UPS / os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
        with _set_ups_alone():
            made.parent.mkdir(exist_ok=True)
            if made.exists():
                self._take_over(made)
                return
            for old in made.parent.iterdir():
                shutil.rmtree(old)
            first = self.start("./ktrial", "--version")
            assert first.returncode == 0, first.stderr
            subprocess.run(["cp", "-a", "--no-preserve=ownership", self.checkout, made], check=True)

    def _take_over(self, made: Path) -> None:
        """Replace this checkout by one that another user set up, and replace that user's paths in it."""
        shutil.rmtree(self.checkout)
        subprocess.run(["cp", "-a", made, self.checkout], check=True)
        theirs = str(Path((made / ".setup/stamp").read_text().strip()).parent)
        places = (".setup/agent-stamp", ".venv/ktrial-stamp", ".venv/pyvenv.cfg", ".setup/stamp")
        (path,) = (self.checkout / ".venv/lib").glob("python*/site-packages/ktrial.pth")
        for file in (path, *(self.checkout / place for place in places)):
            file.write_text(file.read_text().replace(theirs, str(self.home)))
        subprocess.run(["chown", "--recursive", f"{self.name}:{self.name}", self.checkout], check=True)

    @property
    def _rule(self) -> Path:
        return Path("/etc/sudoers.d") / self.name

    def _fill(self) -> None:
        """Put a checkout without any set-up, and a compiler, into the home directory."""
        leave_out = shutil.ignore_patterns("__pycache__", "target", "*.egg-info")
        self.checkout.mkdir()
        shutil.copy2(CHECKOUT / "ktrial", self.checkout)
        for name in ("setup", "agent", "src"):
            shutil.copytree(CHECKOUT / name, self.checkout / name, ignore=leave_out)
        shutil.copy2(CHECKOUT / ".setup/bin/ktrial-agent", self.home / "built-agent")
        tools = self.home / ".cargo/bin"
        tools.mkdir(parents=True)
        for name, script in (("cargo", _CARGO), ("rustc", _RUSTC)):
            (tools / name).write_text(script)
            (tools / name).chmod(0o755)
        subprocess.run(["chown", "--recursive", f"{self.name}:{self.name}", self.home], check=True)


def forget_set_ups() -> None:
    """Remove the set-ups that the users of this run share."""
    if _SET_UPS.exists():
        with _set_ups_alone():
            shutil.rmtree(_SET_UPS)


@contextlib.contextmanager
def _set_ups_alone() -> Iterator[None]:
    """Keep other tests away from the shared set-ups."""
    with (_SET_UPS.parent / "users.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def ordinary_user(purpose: str, *, ready: bool = True) -> Iterator[User]:
    """Yield a user for the time of a test, whose checkout is set up if `ready`. Leave no trace; fail without root."""
    assert os.geteuid() == 0, "this test makes a user and a rule of sudo: run ./check as root"
    name = f"ktrial-{purpose}-{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix="ktrial-home-"))
    folder.chmod(0o755)
    home = folder / "home"
    try:
        subprocess.run(["useradd", "--create-home", "--home-dir", home, "--user-group", name], check=True)
        user = User(name, home, pwd.getpwnam(name).pw_uid)
        user.allow()
        user._fill()
        if ready:
            user._set_up()
        yield user
    finally:
        (Path("/etc/sudoers.d") / name).unlink(missing_ok=True)
        subprocess.run(["userdel", "--force", name], check=True)
        shutil.rmtree(folder)
