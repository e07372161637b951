# SPDX-License-Identifier: Apache-2.0
"""Bundles out of one kind of store and into the other, and bundles that somebody tampered with."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import re
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.packed_raw import layers
from ktrial.evidence import file as bundle_module
from ktrial.evidence.file import BundleFolder
from ktrial.evidence.pack import Scrubbing, bring_back, make_bundle
from ktrial.evidence.reparse import reparse_run
from ktrial.evidence.unpack import BundleResults
from ktrial.kit.errors import BadInput, KtrialError, Refused
from ktrial.kit.scrub import Identity
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.stores import a_record, a_run, a_session, fresh_database

SCRUBBING = Scrubbing(
    identity=Identity(host=("hermes",), user=("alice",), serial=("PF3XW1AB",), mac=("02:42:ac:11:00:09",)),
    salt=b"salt",
    benchmarks=all_benchmarks(),
)
MESSAGING = (
    b"# Running 'sched/messaging' benchmark:\n# 20 sender and receiver processes per group\n"
    b"# 2 groups == 80 processes run\n\n     Total time: 0.173 [sec]\n"
)
MEASURED: dict[str, Any] = {
    "parameters": {"groups": 2, "loops": 200},
    "details": {"tasks": 80},
    "measurements": [{"outcome": "time", "value": 0.173, "unit": "s", "direction": "lower", "original": "0.173 s"}],
}


def fill(store: Store) -> None:
    """Two sessions with raw output, a failed run, an interrupted one and states."""
    store.begin(a_session("s1", document={"session": "s1", "seed": 7, "notes": ["of hermes"]}), plan="plan")
    store.save(a_run(1, 0.25), {"stdout": b"on hermes by alice\n", "stderr": b"\x00\xff" * 5000})
    store.save(
        a_run(2, state="failed", measurements=(), document={"failure": "in /home/alice/x", "measurements": []}), {}
    )
    store.save(a_run(3, 1e-7, warm_up=True), {"stdout": b"on hermes by alice\n"})
    store.keep_state("s1", "begin", b'{"kernel.hostname": "hermes", "vm.swappiness": 60}')
    store.begin(a_session("s2", label=None, origin="import:hyperfine"))
    store.save(a_run(1, session="s2"), {"files/a.json": b"{}"})


def packed(store: Store, folder: Path, name: str = "out.tar.zst", scrubbing: Scrubbing | None = SCRUBBING) -> Path:
    """All of a store as a bundle."""
    bundles = BundleFolder(folder / "work")
    make_bundle(folder / name, store.sessions(), store, bundles.new(), scrubbing)
    bundles.close()
    return folder / name


def unpacked(path: Path, store: Store, folder: Path) -> Any:
    """A bundle brought into a store."""
    bundles = BundleFolder(folder / "work")
    try:
        return bring_back(bundles.open(path), store, SCRUBBING)
    finally:
        bundles.close()


def text_of(path: Path) -> bytes:
    """The tar in a bundle."""
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


@pytest.fixture
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """A SQLite store and a PostgreSQL store."""
    with fresh_database(request.getfixturevalue("server")) as url:
        stores = (Store(Database.open(str(tmp_path / "a.db"))), Store(Database.open(url)))
        yield stores
        for store in stores:
            store.close()


@pytest.mark.parametrize("scrubbing", [SCRUBBING, None], ids=["scrubbed", "as-it-is"])
@pytest.mark.parametrize("first", [0, 1], ids=["from-sqlite", "from-postgresql"])
def test_a_bundle_is_equal_after_a_way_through_the_other_database(
    both: tuple[Store, Store], first: int, scrubbing: Scrubbing | None, tmp_path: Path
) -> None:
    here, other = both[first], both[1 - first]
    fill(here)
    one = packed(here, tmp_path, "one", scrubbing)
    assert one.read_bytes() == packed(here, tmp_path, "again", scrubbing).read_bytes()
    assert unpacked(one, other, tmp_path).imported == ("s1", "s2")
    assert packed(other, tmp_path, "two", scrubbing).read_bytes() == one.read_bytes()
    if scrubbing is None:
        assert list(other.runs("s1")) == list(here.runs("s1"))
        assert set(other.grouped()) == set(here.grouped())
        assert other.states("s1") == here.states("s1")
    assert [session.origin for session in other.sessions()] == ["bundle", "bundle"]
    assert unpacked(one, other, tmp_path).skipped == ("s1", "s2")
    assert unpacked(one, here, tmp_path).skipped == ("s1", "s2"), "it comes back to where it was made"
    assert not list((tmp_path / "work").iterdir())


def test_the_sessions_of_a_bundle_are_read_as_those_of_a_store(store: Store, tmp_path: Path) -> None:
    for place, name in enumerate(("old", "new", "middle")):
        started = 1_700_000_000_000 + 1000 * (0, 2, 1)[place]
        store.begin(a_session(name, started_unix_ms=started, document={"session": name}))
        store.save(a_run(1, session=name), {})
    bundles = BundleFolder(tmp_path / "work")
    found = BundleResults(bundles.examine(packed(store, tmp_path)))
    assert [one.session for one in found.sessions()] == ["new", "middle", "old"]
    bundles.close()


def test_nobody_is_named_in_a_bundle(store: Store, tmp_path: Path) -> None:
    fill(store)
    content = text_of(packed(store, tmp_path))
    for name in (b"hermes", b"alice"):
        assert name not in content
    manifest = json.loads(content[512 : 512 + content[512:].index(b"\n")])
    assert manifest["sessions"][0] == {"session": "s1", "replaced": {"host": 3, "user": 2}}
    kept = text_of(packed(store, tmp_path, "kept", None))
    assert b"by alice" in kept
    assert b'"replaced":null' in kept


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_nobody_is_named_in_what_is_packed(store: Store, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """A name that only the inside gives away is found elsewhere too."""
    store.begin(a_session())
    inside = pack(b"Linux penelope 6.1.0 #1 at hermes, in /home/alice/x\n" * 20)
    store.save(a_run(1), {"file": inside, "deep": pack(gzip.compress(inside)), "stdout": b"penelope\n"})
    store.save(a_run(2), {"file": pack(b"nobody is named")})
    other = Store(Database.open(str(tmp_path / "other.db")))
    unpacked(packed(store, tmp_path), other, tmp_path)
    first, second = other.runs("s1")
    found = {name: list(layers(other.raw(digest)))[-1] for name, digest in first.raw.items()}
    assert found["file"] == found["deep"]
    for data in found.values():
        assert not re.search(rb"hermes|alice|penelope", data)
    assert found["file"].count(found["stdout"].strip()) == 20
    assert other.raw(second.raw["file"]) == pack(b"nobody is named") or pack is gzip.compress
    other.close()


def test_what_cannot_be_looked_into_is_packed_only_with_all_names(store: Store, tmp_path: Path) -> None:
    store.begin(a_session())
    store.save(a_run(1), {"stdout": b"", "file": gzip.compress(b"hermes" * 1000)[:-9]})
    with pytest.raises(
        Refused, match=r"run 1, file may contain names \(cannot unpack gzip data: the end is missing"
    ) as no:
        packed(store, tmp_path)
    assert "--keep-identity" in (no.value.hint or "")
    assert not (tmp_path / "out.tar.zst").exists()
    packed(store, tmp_path, scrubbing=None)


def test_records_name_the_scrubbed_bytes(store: Store, tmp_path: Path) -> None:
    store.begin(a_session())
    stdout = b"# hermes\n" + MESSAGING
    digest = hashlib.sha256(stdout).hexdigest()
    record = a_record(1, "perf-messaging", raw={"stdout": {"sha256": digest, "size_bytes": len(stdout)}})
    store.save(record, {"stdout": stdout})
    other = Store(Database.open(str(tmp_path / "other.db")))
    unpacked(packed(store, tmp_path), other, tmp_path)
    (run,) = other.runs("s1")
    data = other.raw(run.raw["stdout"])
    assert b"hermes" not in data
    assert run.document is not None
    assert run.document["raw"]["stdout"] == {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    other.close()


def test_a_name_that_is_a_word_of_the_tool_takes_no_number_away(store: Store, tmp_path: Path) -> None:
    stdout = MESSAGING + b"hostname: processes\n"
    store.begin(a_session())
    store.save(a_record(1, "perf-messaging", **MEASURED), {"stdout": stdout})
    names = Scrubbing(identity=Identity(host=("processes",)), salt=b"salt", benchmarks=all_benchmarks())
    path, other = packed(store, tmp_path, scrubbing=names), Store(Database.open(str(tmp_path / "other.db")))
    unpacked(path, other, tmp_path)
    (run,) = other.runs("s1")
    data = other.raw(run.raw["stdout"])
    assert data.startswith(MESSAGING), "the word stays where it is the tool's"
    assert b"hostname: processes" not in data, "and goes where it can only be the host"
    assert reparse_run(run, {"stdout": data}, all_benchmarks()).changes == ()
    other.close()


def test_another_session_of_the_same_name_is_refused_and_nothing_written(store: Store, tmp_path: Path) -> None:
    fill(store)
    path = packed(store, tmp_path)
    other = Store(Database.open(str(tmp_path / "other.db")))
    other.begin(a_session("s2"))
    with pytest.raises(Refused, match="session s2 is already in the store with other content"):
        unpacked(path, other, tmp_path)
    assert [session.session for session in other.sessions()] == ["s2"]
    other.close()


def test_a_session_that_is_being_measured_is_not_packed(store: Store, tmp_path: Path) -> None:
    store.begin(a_session())
    store.start("s1", 1, "wakeup", 5)
    with pytest.raises(Refused, match="still being measured"):
        packed(store, tmp_path)
    assert not (tmp_path / "out.tar.zst").exists()


def rebuilt(path: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> bytes:
    """The bundle with its members changed."""
    with tarfile.open(fileobj=io.BytesIO(text_of(path))) as tar:
        members = [(info, tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]
    change(members)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for info, data in members:
            info.size = len(data) if info.size >= 0 else 0
            tar.addfile(info, io.BytesIO(data))
    return zstandard.ZstdCompressor(write_checksum=True).compress(out.getvalue())


def named(name: str, kind: bytes = tarfile.REGTYPE) -> Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]:
    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info = tarfile.TarInfo(name)
        info.type = kind
        info.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
        members.append((info, b"" if kind != tarfile.REGTYPE else b"x"))

    return change


def with_manifest(change: Callable[[Any], None]) -> Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]:
    def other(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        document = json.loads(members[0][1])
        change(document)
        members[0] = (members[0][0], json.dumps(document).encode())

    return other


def drop_last(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.pop()


def change_raw(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    at = next(number for number, (info, _) in enumerate(members) if info.name.startswith("raw/"))
    members[at] = (members[at][0], members[at][1][:-1] + b"?")


def rewritten(name: str, change: Callable[[bytes], bytes]) -> Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]:
    """The first member whose name begins so is changed, and the manifest with it."""

    def other(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        at = next(number for number, (info, _) in enumerate(members) if info.name.startswith(name))
        info, data = members[at][0], change(members[at][1])
        members[at] = (info, data)
        listed = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
        with_manifest(lambda document: document["members"].update({info.name: listed}))(members)

    return other


def with_fields(**fields: Any) -> Callable[[bytes], bytes]:
    """A run that says so of itself."""
    return lambda line: json.dumps({**json.loads(line), **fields}).encode() + b"\n"


def other_raw(line: bytes) -> bytes:
    run = json.loads(line)
    return json.dumps({**run, "document": {"raw": {"files/a.json": {"sha256": "0" * 64}}}}).encode() + b"\n"


def telling_raw(told: object) -> Callable[[bytes], bytes]:
    """A run whose record says this of its raw output."""
    return lambda line: json.dumps({**json.loads(line), "document": {"raw": told}}).encode() + b"\n"


def other_state(data: bytes) -> bytes:
    session = json.loads(data)
    assert session["states"]
    return json.dumps({**session, "states": {"begin": "0" * 64}}).encode()


def grow_raw(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members[1] = (members[1][0], members[1][1] + b"?")


def repeat(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.append(members[1])


def manifest_last(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.append(members.pop(0))


def huge(document: Any) -> None:
    first = next(iter(document["members"].values()))
    first["size_bytes"] = 1 << 40


@pytest.mark.parametrize(
    "change, said",
    [
        (named("../../evil"), "leads outside the bundle"),
        (named("/etc/evil"), "leads outside the bundle"),
        (named("raw/../../evil"), "leads outside the bundle"),
        (named("notes.txt"), "does not belong in a bundle"),
        (named("raw/" + "a" * 64), "is not in the manifest"),
        (named("raw/" + "a" * 64, tarfile.SYMTYPE), "a symbolic link"),
        (named("raw/" + "a" * 64, tarfile.LNKTYPE), "a link"),
        (named("raw/" + "a" * 64, tarfile.CHRTYPE), "a device"),
        (named("raw", tarfile.DIRTYPE), "a folder"),
        (
            with_manifest(lambda document: document.update(schema="ktrial.bundle/2")),
            r"a newer ktrial wrote this bundle \(ktrial\.bundle/2\)",
        ),
        (with_manifest(lambda document: document.update(schema="other")), "cannot read manifest.json"),
        (with_manifest(huge), "the limits are"),
        (
            with_manifest(lambda document: document["sessions"].pop()),
            "the sessions and the files in manifest.json do not match",
        ),
        (drop_last, "is missing; the bundle may be truncated"),
        (change_raw, "does not match its digest"),
        (rewritten("raw/", lambda data: data[:-1] + b"?"), "does not match its digest"),
        (rewritten("sessions/s2/runs.jsonl", other_raw), "other raw output than the run has"),
        (rewritten("sessions/s2/runs.jsonl", telling_raw(["stdout"])), "expected an object for each name in `raw`"),
        (
            rewritten("sessions/s2/runs.jsonl", telling_raw({"stdout": "0" * 64})),
            "expected an object for each name in `raw`",
        ),
        (rewritten("sessions/s2/runs.jsonl", lambda data: data * 2), "run 1 occurs twice"),
        (
            rewritten("sessions/s2/runs.jsonl", lambda data: data + b"{}\n"),
            r"runs\.jsonl:2 in .*: object missing",
        ),
        (rewritten("sessions/s2/runs.jsonl", with_fields(state="running")), "run 1 is still running"),
        (
            rewritten("sessions/s2/runs.jsonl", with_fields(raw={"stdout": "0" * 64})),
            r"runs\.jsonl:1 in .*: raw output 000000000000… is not in the bundle",
        ),
        (
            rewritten("sessions/s2/runs.jsonl", lambda _: b"[]\n"),
            r"runs\.jsonl:1 in .*: expected `object`",
        ),
        (
            rewritten("sessions/s1/session.json", lambda _: b"[]"),
            r"s1/session\.json in .*: expected `object`",
        ),
        (rewritten("sessions/s1/session.json", other_state), "raw output 000000000000… is not in the bundle"),
        (
            with_manifest(lambda document: document["sessions"][0].update(replaced=None)),
            "not the session that the manifest names",
        ),
        (grow_raw, "bytes, but the manifest says"),
        (repeat, "occurs twice"),
        (manifest_last, "does not begin with manifest.json"),
    ],
)
def test_a_bundle_that_is_not_in_order_is_refused(
    change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None], said: str, tmp_path: Path
) -> None:
    store = Store(Database.open(str(tmp_path / "a.db")))
    fill(store)
    bad = tmp_path / "bad"
    bad.write_bytes(rebuilt(packed(store, tmp_path), change))
    other = Store(Database.open(str(tmp_path / "b.db")))
    with pytest.raises(BadInput, match=said) as refused:
        unpacked(bad, other, tmp_path)
    assert refused.value.hint
    assert other.sessions() == ()
    assert not (tmp_path / "evil").exists()
    store.close()
    other.close()


def test_a_bundle_has_a_checksum_of_its_content(tmp_path: Path) -> None:
    store = Store(Database.open(str(tmp_path / "a.db")))
    fill(store)
    assert zstandard.get_frame_parameters(packed(store, tmp_path).read_bytes()).has_checksum
    store.close()


def test_nothing_is_hidden_behind_the_end_of_a_member(tmp_path: Path) -> None:
    store = Store(Database.open(str(tmp_path / "a.db")))
    fill(store)
    text = bytearray(text_of(packed(store, tmp_path)))
    store.close()
    with tarfile.open(fileobj=io.BytesIO(text)) as tar:
        ends = [info.offset_data + info.size for info in tar if info.size % 512]
    for end in ends[:3]:
        hiding = bytearray(text)
        hiding[end] = 1
        (tmp_path / "bad").write_bytes(zstandard.compress(hiding))
        with pytest.raises(BadInput, match="unexpected data between its files"):
            BundleFolder(tmp_path / "work").open(tmp_path / "bad")


def test_what_unpacks_to_more_than_it_says_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_module, "LARGEST_BYTES", 1 << 20)
    info = tarfile.TarInfo("manifest.json")
    info.size = 2 << 30
    bomb = info.tobuf(tarfile.USTAR_FORMAT) + b"\0" * 1000
    (tmp_path / "bomb").write_bytes(zstandard.compress(bomb))
    with pytest.raises(BadInput, match="claims to have 2 GiB"):
        BundleFolder(tmp_path / "work").open(tmp_path / "bomb")


@pytest.mark.parametrize("data", [b"", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"{}", b"\x1f\x8b" + b"\0" * 600])
def test_other_files_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(data)
    with pytest.raises(BadInput):
        BundleFolder(tmp_path / "work").open(tmp_path / "other")
    with pytest.raises(BadInput, match="no such file"):
        BundleFolder(tmp_path / "work").open(tmp_path / "none")


def test_what_a_killed_process_left_is_taken_away(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for process in (ended.pid, 1):
        (tmp_path / f"{process}-left").mkdir()
    bundles = BundleFolder(tmp_path)
    bundles.new()
    assert not (tmp_path / f"{ended.pid}-left").exists()
    bundles.close()
    assert [path.name for path in tmp_path.iterdir()] == ["1-left"], "that process still runs"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A bundle that is in order."""
    folder = tmp_path_factory.mktemp("sound")
    store = Store(Database.open(str(folder / "a.db")))
    fill(store)
    data = packed(store, folder).read_bytes()
    store.close()
    return data


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bundle_that_was_cut_or_has_more_is_refused(sound: bytes, tmp_path: Path, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sound) - 1))
    more = data.draw(st.binary(min_size=1, max_size=40))
    for changed in (sound[:at], sound + more):
        (tmp_path / "bad").write_bytes(changed)
        bundles = BundleFolder(tmp_path / "work")
        with pytest.raises(BadInput):
            bundles.open(tmp_path / "bad")
        bundles.close()


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_bundle_is_refused_or_the_same(sound: bytes, tmp_path: Path, data: st.DataObject) -> None:
    """Bytes of the tar changed, then packed anew: digests and the reader's own checks must hold it."""
    text = bytearray(zstandard.ZstdDecompressor().decompressobj().decompress(sound))
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "bad").write_bytes(zstandard.compress(bytes(text)))
    bundles = BundleFolder(tmp_path / "work")
    store = Store(Database.open(str(tmp_path / "mutated.db")))
    try:
        bring_back(bundles.open(tmp_path / "bad"), store, None)
    except KtrialError as error:
        assert isinstance(error, BadInput | Refused), error
    finally:
        bundles.close()
        store.close()


@given(data=st.binary(max_size=3000))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused(tmp_path: Path, data: bytes) -> None:
    for made in (data, zstandard.compress(data)):
        (tmp_path / "bad").write_bytes(made)
        bundles = BundleFolder(tmp_path / "work")
        with pytest.raises(BadInput):
            bundles.open(tmp_path / "bad")
        bundles.close()
