# SPDX-License-Identifier: Apache-2.0
"""Builds of the agent that die at a numbered step, and memory to work in."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fault_agent import fault_agent_with


@pytest.fixture(scope="session")
def fault_agent() -> Path:
    """The agent that dies at the step named by its environment."""
    return fault_agent_with("fault-injection")


@pytest.fixture(scope="session")
def sabotaged_agent() -> Path:
    """The same with the fsync of the old values moved behind the first write."""
    return fault_agent_with("sabotage-late-fsync")


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A temporary folder in memory: the tests here sync thousands of times, and simulate what that is good for."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)
