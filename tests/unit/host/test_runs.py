# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from ktrial.domain.errors import Busy, KtrialError
from ktrial.domain.facts import FactBook
from ktrial.domain.run import Artefact, RunRecord
from ktrial.domain.suite import Task
from ktrial.host.private_folder import remove_leftovers
from ktrial.host.runs import RunStore
from ktrial.services.measure import Order, measure
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, FakeStore


def a_record() -> tuple[RunRecord, dict[str, bytes]]:
    task = Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 1})
    store = FakeStore()
    order = Order(suite="own", tasks=(task,), rounds=1, seed=1)
    _, (record,) = measure(order, FakeExecutor(), store, FakeClock(), FactBook({}), lambda event: None)
    return record, dict(store.parts[0])


def test_a_record_and_its_output_lie_on_the_disk_for_their_owner_alone(tmp_path: Path) -> None:
    record, parts = a_record()
    path = Path(RunStore(tmp_path / "runs").save(record, parts))
    assert path == tmp_path / "runs" / "session" / "0001-a.json"
    assert msgspec.json.decode(path.read_bytes(), type=RunRecord) == record
    digest = record.raw["stdout"].sha256
    assert (tmp_path / "runs" / "raw" / digest[:2] / digest).read_bytes() == parts["stdout"]
    for place, folders, files in os.walk(tmp_path / "runs"):
        assert Path(place).stat().st_mode & 0o777 == 0o700
        assert all((Path(place) / name).stat().st_mode & 0o777 == 0o600 for name in files)
        assert not any(name.endswith(".part") for name in (*folders, *files))


def test_the_record_is_synced_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = a_record()
    store = RunStore(tmp_path / "runs")
    log: list[str] = []
    sync, rename = os.fsync, Path.rename

    def logged_sync(descriptor: int) -> None:
        log.append("sync " + Path(f"/proc/self/fd/{descriptor}").resolve().name)
        sync(descriptor)

    def logged_rename(self: Path, target: Path) -> Path:
        log.append(f"rename {target.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", logged_sync)
    monkeypatch.setattr(Path, "rename", logged_rename)
    store.save(record, {})
    assert log[-3].startswith("sync .0001-a.json.")
    assert log[-2:] == ["rename 0001-a.json", "sync session"]


def test_a_full_disk_is_said_and_leaves_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, parts = a_record()
    store = RunStore(tmp_path / "runs")
    store.save(record, parts)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    second = msgspec.structs.replace(record, run=2)
    with pytest.raises(KtrialError, match=r"0002-a\.json cannot be written: No space left on device") as caught:
        store.save(second, parts)
    assert "recorded before are kept" in str(caught.value.hint)
    assert [path.name for path in (tmp_path / "runs" / "session").iterdir()] == ["0001-a.json"]


def test_sessions_have_names_of_their_own(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    names = {store.begin() for _ in range(5)}
    assert len(names) == 5
    assert all(Path(store.folder_of(name)).is_dir() for name in names)


def test_a_benchmarks_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    record, _ = a_record()
    path = Path(RunStore(tmp_path).save(msgspec.structs.replace(record, benchmark="../../x"), {}))
    assert path.parent == tmp_path / "session"


def test_only_one_measures_at_a_time(tmp_path: Path) -> None:
    first, second = RunStore(tmp_path), RunStore(tmp_path)
    first.lock()
    with pytest.raises(Busy, match=f"process {os.getpid()}"):
        second.lock()
    first.close()
    second.lock()
    second.close()


def test_what_a_killed_measurement_left_is_taken_away(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "run-x" / "deep").mkdir(parents=True)
    (work / "run-x" / "deep" / "file").write_text("left")
    (work / "run-x" / "deep").chmod(0o500)
    remove_leftovers(work)
    assert list(work.iterdir()) == []


def test_artefacts_are_written_once(tmp_path: Path) -> None:
    record, parts = a_record()
    store = RunStore(tmp_path)
    store.save(record, parts)
    digest = Artefact.of(parts["stdout"]).sha256
    kept = tmp_path / "raw" / digest[:2] / digest
    before = kept.stat().st_ino
    store.save(msgspec.structs.replace(record, run=2), parts)
    assert kept.stat().st_ino == before
