# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.foreign_agent import agent_for
from ktrial.kit.errors import KtrialError

FOREIGN = "riscv64"
NAME = f"ktrial-agent-{FOREIGN}"


def put(path: Path, age_s: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"agent")
    path.chmod(0o755)
    os.utime(path, (1_000_000 - age_s, 1_000_000 - age_s))
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    put(tmp_path / "agent/src/main.rs", age_s=10)
    put(tmp_path / "agent/Cargo.toml", age_s=10)
    for folder in (tmp_path / "agent/src", tmp_path / "agent"):
        os.utime(folder, (999_990, 999_990))
    return tmp_path


def never(checkout: Path, architecture: str) -> bool:
    raise AssertionError("nothing is to be built")


def test_one_that_is_newer_than_its_sources_is_taken(checkout: Path) -> None:
    agent = put(checkout / f".setup/bin/{NAME}", age_s=5)
    assert agent_for(FOREIGN, checkout / "src/ktrial", never) == agent


@pytest.mark.parametrize("age_s", [20, None])
def test_an_old_or_missing_one_is_built(checkout: Path, age_s: int | None) -> None:
    agent = checkout / f".setup/bin/{NAME}"
    if age_s is not None:
        put(agent, age_s)

    def build(folder: Path, architecture: str) -> bool:
        assert (folder, architecture) == (checkout, FOREIGN)
        put(agent, age_s=0)
        return True

    assert agent_for(FOREIGN, checkout / "src/ktrial", build) == agent


def test_what_cannot_be_built_is_said(checkout: Path) -> None:
    put(checkout / f".setup/bin/{NAME}", age_s=20)
    with pytest.raises(KtrialError, match="cannot build the agent for") as caught:
        agent_for(FOREIGN, checkout / "src/ktrial", lambda folder, architecture: False)
    assert str(caught.value.hint).endswith(f"built elsewhere to {checkout}/.setup/bin/{NAME}")


def test_an_installed_one_is_brought_by_hand(tmp_path: Path) -> None:
    package = tmp_path / "site-packages/ktrial"
    with pytest.raises(KtrialError, match=f"{package}/_bin/{NAME} is missing or not executable"):
        agent_for(FOREIGN, package, never)
    agent = put(package / "_bin" / NAME, age_s=0)
    assert agent_for(FOREIGN, package, never) == agent


def test_one_that_cannot_be_executed_is_mended_in_place(checkout: Path) -> None:
    agent = put(checkout / f".setup/bin/{NAME}", age_s=5)
    agent.chmod(0o644)
    with pytest.raises(KtrialError) as caught:
        agent_for(FOREIGN, checkout / "src/ktrial", never)
    assert caught.value.hint == f"run `chmod +x {agent}`"
    agent.unlink()
    agent.mkdir()
    os.utime(agent, (999_995, 999_995))
    with pytest.raises(KtrialError) as caught:
        agent_for(FOREIGN, checkout / "src/ktrial", never)
    assert caught.value.hint == f"remove {agent}"


def test_this_machine_s_own_is_the_one_that_is_always_there() -> None:
    assert agent_for(platform.machine()) == find_agent()
