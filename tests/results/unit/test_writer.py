# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from ktrial.results.store import runs as writer


@pytest.fixture
def machine_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of this machine's number."""
    path = tmp_path / "machine-id"
    path.write_text("1" * 32 + "\n")
    monkeypatch.setattr("ktrial.results.store.runs.MACHINE_ID", str(path), raising=False)
    return path


def booted_again(monkeypatch: pytest.MonkeyPatch) -> str:
    """How a process of another boot was called."""
    with monkeypatch.context() as other:
        other.setattr("ktrial.results.store.runs._boot_id", lambda: "another-boot")
        return writer.this_writer()


def test_a_process_of_an_earlier_boot_is_gone(machine_id: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert writer.is_gone(booted_again(monkeypatch))
    assert not writer.is_gone(writer.this_writer())


def test_nothing_is_known_of_another_machine_of_the_same_name(
    machine_id: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = booted_again(monkeypatch)
    machine_id.write_text("2" * 32 + "\n")
    assert not writer.is_gone(earlier)
    machine_id.unlink()
    assert not writer.is_gone(earlier)


def test_the_number_of_the_machine_is_not_told(machine_id: Path) -> None:
    assert "1" * 8 not in writer.this_writer()


def test_what_an_older_ktrial_called_its_processes_is_understood(
    machine_id: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, boot, process, start = writer.this_writer().split()
    older = host.partition("/")[0]
    assert not writer.is_gone(f"{older} {boot} {process} {start}")
    assert writer.is_gone(f"{older} another-boot {process} {start}")
    assert writer.is_gone("not what one is called")
