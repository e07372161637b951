# SPDX-License-Identifier: Apache-2.0
"""The agent for aarch64: as the checkout builds it, or in a Debian of its own where this machine's Rust cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from ktrial.agent.foreign_agent import agent_for
from ktrial.kit.errors import KtrialError
from tests.support.debian import DebianRoot

CHECKOUT = Path(__file__).resolve().parents[2]
TARGET = "aarch64-unknown-linux-gnu"
PACKAGES = (
    "ca-certificates",
    "cargo-web",
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "libstd-rust-web-dev:arm64",
    "rustc-web",
)


def cross_agent(folder: Path) -> Path:
    """Where ktrial itself finds it; `folder` is for the system that it may be built in."""
    try:
        return agent_for("aarch64")
    except KtrialError:
        _build(folder)
        return agent_for("aarch64")


def _build(folder: Path) -> None:
    """The compiler is Debian's: it takes the standard library of another architecture from a package."""
    assert os.geteuid() == 0, "this test makes and enters a system of its own: run ./check --full as root"
    root = DebianRoot.make(folder, *PACKAGES, architectures="amd64,arm64")
    shutil.copytree(CHECKOUT / "agent", folder / "opt/agent", ignore=shutil.ignore_patterns("target"))
    built = root.run(
        *("env", "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc"),
        *("cargo", "build", "--release", "--locked", "--target", TARGET),
        directory="/opt/agent",
        time_limit_s=3600,
    )
    assert built.returncode == 0, built.stdout
    place = CHECKOUT / ".setup" / "bin" / "ktrial-agent-aarch64"
    shutil.copy(folder / "opt/agent/target" / TARGET / "release/ktrial-agent", place.with_suffix(".new"))
    place.with_suffix(".new").rename(place)
    subprocess.run(["rm", "--recursive", "--force", "--one-file-system", folder], check=True)
