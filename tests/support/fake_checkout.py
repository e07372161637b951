# SPDX-License-Identifier: Apache-2.0
"""A copy of the checkout's launcher in a temporary folder, with a Python and a Rust compiler that only write a log."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

_PYTHON = """#!/bin/sh
for last; do :; done
case "$*" in
    *realpath*) echo "$0" ;;
    *'-m venv'*)
        echo venv >>"{log}"
        mkdir -p "$last/bin"
        cp "$0" "$last/bin/python"
        ;;
    *'-m pip install'*)
        echo pip "$last" >>"{log}"
        sleep "${{SLOW_PIP:-0}}"
        ;;
    *'-m pip'*) ;;
    *sysconfig*)
        mkdir -p "${{0%/bin/python}}/site"
        echo "${{0%/bin/python}}/site"
        ;;
    *'-m compileall'*) ;;
    *'/ktrial/__main__.py '*)
        echo "$0"
        for argument; do echo "argument:$argument"; done
        ;;
    *) exec "{python}" "$@" ;;
esac
"""

# It outputs itself as the agent, which for root becomes the command after `--`.
_CARGO = """#!/bin/sh
if [ "$1" = launch ]; then
    while [ "$1" != -- ]; do shift; done
    shift
    exec "$@"
fi
echo cargo "$*" >>"{log}"
sleep "${{SLOW_CARGO:-0}}"
mkdir -p "target/$CARGO_BUILD_TARGET/release"
env | grep -E '^(RUSTFLAGS|CARGO_BUILD_TARGET)=' >>"{log}"
cp "{cargo}" "target/$CARGO_BUILD_TARGET/release/ktrial-agent"
"""

_RUSTC = """#!/bin/sh
case $1 in
    -vV) echo 'host: x86_64-unknown-linux-gnu' ;;
    *) echo 'rustc {version} (0123456789 2025-01-01)' ;;
esac
"""


@dataclass
class FakeCheckout:
    """The copy in `root`; `tools` comes first in its PATH, and `log` has one line for each slow step."""

    root: Path
    tools: Path
    log: Path
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path) -> "FakeCheckout":
        """Copy the launcher and the inputs of the set-up below `folder`."""
        root, tools, log = folder / "checkout", folder / "tools", folder / "log"
        root.mkdir()
        tools.mkdir()
        log.touch()
        shutil.copy2(CHECKOUT / "ktrial", root)
        shutil.copytree(CHECKOUT / "setup", root / "setup")
        for name in ("Cargo.toml", "Cargo.lock", ".cargo/config.toml", "src/main.rs", "src/lib.rs"):
            (root / "agent" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / "agent" / name, root / "agent" / name)
        (root / "src/ktrial").mkdir(parents=True)
        checkout = cls(root, tools, log)
        checkout.add_tool("python3", _PYTHON.format(log=log, python=os.path.realpath(sys.executable)))
        checkout.add_tool("cargo", _CARGO.format(log=log, cargo=tools / "cargo"))
        checkout.add_tool("rustc", _RUSTC.format(version="1.85.0"))
        checkout.environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(folder)}
        return checkout

    def add_tool(self, name: str, script: str) -> None:
        """Put an executable script into the folder that comes first in PATH."""
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)

    def add_rustc(self, version: str) -> None:
        """Let the fake compiler report this version."""
        self.add_tool("rustc", _RUSTC.format(version=version))

    def begin(self, *command: str | Path, **environment: str) -> subprocess.Popen[str]:
        """Start a command (by default the launcher) in a process group of its own."""
        return subprocess.Popen(
            command or (self.root / "ktrial", "--version"),
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            start_new_session=True,
        )

    def start(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Start a command and wait for its end."""
        process = self.begin(*command, **environment)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def done(self) -> list[str]:
        """Return the steps since the last call: venv, pip LOCK, cargo ARGUMENTS."""
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        return lines
