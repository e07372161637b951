# SPDX-License-Identifier: Apache-2.0
"""The agent is found in its own places and nowhere else."""

from pathlib import Path

import pytest

from ktrial.agent.binary import AgentNotFound, find_agent


def put(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"agent")
    path.chmod(mode)
    return path


def test_a_checkouts_own_build_comes_first(tmp_path: Path) -> None:
    built = put(tmp_path / ".setup/bin/ktrial-agent")
    put(tmp_path / "src/ktrial/_bin/ktrial-agent")
    assert find_agent(tmp_path / "src/ktrial") == built


def test_an_installed_package_has_it_inside(tmp_path: Path) -> None:
    carried = put(tmp_path / "site-packages/ktrial/_bin/ktrial-agent")
    put(tmp_path / ".setup/bin/ktrial-agent")
    assert find_agent(tmp_path / "site-packages/ktrial") == carried


def test_path_is_never_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "bin/ktrial-agent")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path / "bin")
    with pytest.raises(AgentNotFound):
        find_agent(tmp_path / "src/ktrial")


def test_the_error_lists_every_place_and_what_to_do(tmp_path: Path) -> None:
    not_executable = put(tmp_path / ".setup/bin/ktrial-agent", mode=0o644)
    with pytest.raises(AgentNotFound) as caught:
        find_agent(tmp_path / "src/ktrial")
    assert str(not_executable) in caught.value.message
    assert str(tmp_path / "src/ktrial/_bin/ktrial-agent") in caught.value.message
    assert caught.value.hint == f"build the agent: sh {tmp_path}/setup/prepare.sh {tmp_path} agent"
    assert caught.value.exit_status == 1
    with pytest.raises(AgentNotFound) as of_a_package:
        find_agent(tmp_path / "site-packages/ktrial")
    assert of_a_package.value.hint == "reinstall ktrial"


def test_the_running_package_finds_its_own() -> None:
    assert find_agent().name == "ktrial-agent"
