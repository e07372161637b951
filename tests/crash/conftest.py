# SPDX-License-Identifier: Apache-2.0
"""Builds of the agent that die at a numbered step."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

AGENT_CRATE = Path(__file__).resolve().parents[2] / "agent"


def build(feature: str) -> Path:
    """The agent with `feature`: built where the others are, so that only the agent is compiled anew, and put aside."""
    host = next(
        line.removeprefix("host: ")
        for line in subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout.splitlines()
        if line.startswith("host: ")
    )
    target = AGENT_CRATE / "target" / "fault"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_BUILD_TARGET": host}
    command = ["cargo", "build", "--quiet", "--locked", "-j2", "--features", feature]
    own = target / feature
    target.mkdir(parents=True, exist_ok=True)
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(command, cwd=AGENT_CRATE, env=environment, check=True)
        shutil.copy2(target / host / "debug" / "ktrial-agent", own)
    return own


@pytest.fixture(scope="session")
def fault_agent() -> Path:
    """The agent that dies at the step named by its environment."""
    return build("fault-injection")


@pytest.fixture(scope="session")
def sabotaged_agent() -> Path:
    """The same with the fsync of the old values moved behind the first write."""
    return build("sabotage-late-fsync")


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A temporary folder in memory: the tests here sync thousands of times, and simulate what that is good for."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)
