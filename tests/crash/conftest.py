# SPDX-License-Identifier: Apache-2.0
"""Builds of the agent that die at a numbered step."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

AGENT_CRATE = Path(__file__).resolve().parents[2] / "agent"


def build(features: str, folder: str) -> Path:
    """The agent with `features`, built into `agent/target/<folder>`."""
    host = next(
        line.removeprefix("host: ")
        for line in subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout.splitlines()
        if line.startswith("host: ")
    )
    target = AGENT_CRATE / "target" / folder
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_BUILD_TARGET": host}
    command = ["cargo", "build", "--quiet", "--locked", "-j2", "--features", features]
    subprocess.run(command, cwd=AGENT_CRATE, env=environment, check=True)
    return target / host / "debug" / "ktrial-agent"


@pytest.fixture(scope="session")
def fault_agent() -> Path:
    """The agent that dies at the step named by its environment."""
    return build("fault-injection", "fault")


@pytest.fixture(scope="session")
def sabotaged_agent() -> Path:
    """The same with the fsync of the old values moved behind the first write."""
    return build("sabotage-late-fsync", "sabotage")


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A temporary folder in memory: the tests here sync thousands of times, and simulate what that is good for."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)
