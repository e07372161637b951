# SPDX-License-Identifier: Apache-2.0
"""The agent for another architecture, built by the checkout or, if its Rust cannot, in a separate Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from ktrial.agent.foreign_agent import agent_for
from ktrial.kit.errors import KtrialError
from tests.support.debian import DebianRoot

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("ca-certificates", "cargo-web", "rustc-web")


class _Target(NamedTuple):
    """The names of an architecture in Debian and Rust."""

    debian: str
    rust: str
    tools: str


TARGETS = {
    "aarch64": _Target("arm64", "aarch64-unknown-linux-gnu", "aarch64-linux-gnu"),
    "armv7": _Target("armhf", "armv7-unknown-linux-gnueabihf", "arm-linux-gnueabihf"),
}


def cross_agent(folder: Path, architecture: str = "aarch64") -> Path:
    """Put the agent where ktrial finds it; `folder` is for the system in which it may be built."""
    try:
        return agent_for(architecture)
    except KtrialError:
        _build(folder, architecture)
        return agent_for(architecture)


def _build(folder: Path, architecture: str) -> None:
    """Build the agent with Debian's compiler, which has packages of the standard library for other architectures."""
    assert os.geteuid() == 0, "this test makes and enters a system of its own: run ./check --full as root"
    debian, rust, tools = TARGETS[architecture]
    cross = (f"gcc-{tools}", f"libc6-dev-{debian}-cross", f"libstd-rust-web-dev:{debian}")
    root = DebianRoot.make(folder, *PACKAGES, *cross, architectures=f"amd64,{debian}")
    shutil.copytree(CHECKOUT / "agent", folder / "opt/agent", ignore=shutil.ignore_patterns("target"))
    built = root.run(
        *("env", f"CARGO_TARGET_{rust.upper().replace('-', '_')}_LINKER={tools}-gcc"),
        *("cargo", "build", "--release", "--locked", "--target", rust),
        directory="/opt/agent",
        time_limit_s=3600,
    )
    assert built.returncode == 0, built.stdout
    place = CHECKOUT / ".setup" / "bin" / f"ktrial-agent-{architecture}"
    shutil.copy(folder / "opt/agent/target" / rust / "release/ktrial-agent", place.with_suffix(".new"))
    place.with_suffix(".new").rename(place)
    subprocess.run(["rm", "--recursive", "--force", "--one-file-system", folder], check=True)
