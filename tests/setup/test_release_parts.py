# SPDX-License-Identifier: Apache-2.0
"""The parts of a release: archives without a date of their own, complete lists, recipes that their tools read."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial import __version__
from release import CannotRelease, licences, sbom
from release.__main__ import main
from release.archives import extract, repack_gz, tar, write_zst
from release.recipes import RECIPES, fill
from release.source import check_version, versions
from release.sums import NAMESPACE, sign, write_sums
from release.wheels import build_wheel, unpack
from tests.support.fake_checkout import CHECKOUT

SUMS = {"x86_64": "a" * 64, "aarch64": "b" * 64}
DATED = 1_700_000_000


def folder_of(place: Path, mode: int, dated: int) -> Path:
    """The same files, written by another umask and on another day."""
    for name, text in (("b/python3.11/x.py", "one"), ("a", "two"), ("b/python3.13/x.py", "one"), ("run", "#!/bin/sh")):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
        (place / name).chmod(mode | (0o100 if name == "run" else 0))
        os.utime(place / name, (dated, dated))
    (place / "link").symlink_to("a")
    return place


def test_an_archive_depends_on_names_and_contents_alone(tmp_path: Path) -> None:
    first = tar(folder_of(tmp_path / "first", 0o600, 1), "name", DATED)
    second = tar(folder_of(tmp_path / "second", 0o664, 2_000_000_000), "name", DATED)
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert {member.mtime for member in members.values()} == {DATED}
        assert {(member.uid, member.gid, member.uname) for member in members.values()} == {(0, 0, "")}
        assert members["name/b/python3.13/x.py"].linkname == "name/b/python3.11/x.py"
        assert (members["name/run"].mode, members["name/a"].mode) == (0o755, 0o644)
        extract(archive, tmp_path / "out")
    assert (tmp_path / "out/name/b/python3.13/x.py").read_text() == "one"
    (tmp_path / "second/a").write_text("three")
    assert tar(tmp_path / "second", "name", DATED) != first


def test_a_compressed_archive_is_read_by_tar(tmp_path: Path) -> None:
    write_zst(folder_of(tmp_path / "tree", 0o644, 1), "name", DATED, tmp_path / "a.tar.zst")
    listed = subprocess.run(
        ["tar", "--zstd", "-tf", tmp_path / "a.tar.zst"], check=True, capture_output=True, text=True
    )
    assert "name/b/python3.13/x.py" in listed.stdout.splitlines()


def test_a_source_distribution_is_packed_again_without_its_date(tmp_path: Path) -> None:
    packed = []
    for number in (1, 2):
        place = tmp_path / str(number)
        folder_of(place / "name-1", 0o644, number)
        archive = place / "a.tar.gz"
        with tarfile.open(archive, "w:gz") as written:
            written.add(place / "name-1", "name-1")
        (place / "work").mkdir()
        repack_gz(archive, place / "work", DATED)
        packed.append(archive.read_bytes())
    assert packed[0] == packed[1]


def test_every_place_names_the_version_that_is_released(tmp_path: Path) -> None:
    assert set(versions(CHECKOUT).values()) == {__version__}
    for name in ("src/ktrial/__init__.py", "CHANGELOG.md", "agent/Cargo.toml", "agent/Cargo.lock"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    check_version(tmp_path, __version__)
    with pytest.raises(CannotRelease, match=r"'1\.2' is no version"):
        check_version(tmp_path, "1.2")
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace(f"## {__version__}", "## Unreleased", 1))
    with pytest.raises(CannotRelease, match=r"CHANGELOG\.md says Unreleased"):
        check_version(tmp_path, __version__)


def test_a_release_into_a_folder_with_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.whl").touch()
    assert main([__version__, "--root", str(CHECKOUT), "--output", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert told == f"setup/release: cannot write to {tmp_path}: it is not empty\n  next: remove it: rm -r {tmp_path}\n"


def test_sums_are_signed_for_releases_and_a_change_is_noticed(tmp_path: Path) -> None:
    key, house = tmp_path / "key", tmp_path / "house"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    house.mkdir()
    (house / "a.whl").write_bytes(b"one")
    sums = write_sums(house)
    signature = sign(sums, key)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"ktrial {key.with_suffix('.pub').read_text()}")

    def verify(namespace: str) -> int:
        words: list[str | Path] = [
            "ssh-keygen",
            "-Y",
            "verify",
            "-f",
            allowed,
            "-I",
            "ktrial",
            "-n",
            namespace,
            "-s",
            signature,
        ]
        return subprocess.run(words, input=sums.read_bytes(), capture_output=True, check=False).returncode

    assert verify(NAMESPACE) == 0
    assert verify("git") != 0
    check = ["sha256sum", "--check", "--strict", "--quiet", sums.name]
    assert subprocess.run(check, cwd=house, capture_output=True, check=False).returncode == 0
    (house / "a.whl").write_bytes(b"two")
    assert subprocess.run(check, cwd=house, capture_output=True, check=False).returncode != 0
    assert write_sums(house).read_text().count("\n") == 1, "the list and its signature are not in it"
    assert verify(NAMESPACE) != 0
    with pytest.raises(CannotRelease, match="cannot sign SHA256SUMS"):
        sign(sums, tmp_path / "no-key")


def test_a_wheel_is_unpacked_into_its_folder_only(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("a/__init__.py", "a-1.data/purelib/b.py", "a-1.data/scripts/run", "a-1.data/data/man", "../out"):
            archive.writestr(name, "")
    unpack(wheel, tmp_path / "house")
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {wheel.name, "house/a/__init__.py", "house/b.py"}


def test_the_parts_are_those_of_both_lock_files() -> None:
    lock = (CHECKOUT / "setup/requirements.lock").read_text(encoding="utf-8")
    crate = licences.Crate("serde", "1.0.0", "MIT/Apache-2.0", "c" * 64, Path())
    document = sbom.document("1.0.0", DATED, [crate], lock, [], "2.36")
    named = {part["purl"] for part in document["components"] if "purl" in part}
    pinned = re.findall(r"^(\S+)==(\S+)", lock, re.MULTILINE)
    assert named == {"pkg:cargo/serde@1.0.0", *(f"pkg:pypi/{name}@{version}" for name, version in pinned)}
    assert all(sums for _, _, sums in sbom.locked(lock))
    assert document["components"][0]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    references = {part["bom-ref"] for part in document["components"]}
    assert set(document["dependencies"][0]["dependsOn"]) == references
    assert json.dumps(sbom.document("1.0.0", DATED, [crate], lock, [], "2.36")) == json.dumps(document)


def test_every_crate_brings_the_text_of_its_licence() -> None:
    cargo = shutil.which("cargo") or str(Path.home() / ".cargo/bin/cargo")
    linked = licences.crates(CHECKOUT / "agent", cargo)
    assert {"libc", "rustix", "serde_json"} <= {crate.name for crate in linked}
    assert "proptest" not in {crate.name for crate in linked}, "tests are not linked"
    assert [crate.name for crate in linked if not crate.texts()] == []
    lgpl = (CHECKOUT / "packaging/licences/LGPL-2.1.txt").read_text(encoding="utf-8")
    text = licences.text(linked, "libc6-dev 2.36-9", lgpl)
    assert "glibc: libc6-dev 2.36-9\n" in text
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text
    for crate in linked:
        assert f"\n{crate.name} {crate.version}: {crate.licence}\n" in text


@pytest.mark.parametrize(
    "expression,permitted",
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only/Apache-2.0", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("MIT AND LGPL-2.1-only", False),
        ("Apache-2.0 WITH LLVM-exception", False),
        ("", False),
    ],
)
def test_a_crate_is_linked_only_under_terms_that_a_release_meets(expression: str, permitted: bool) -> None:
    assert licences.is_permitted(expression) is permitted


def test_recipes_are_filled_in_and_read_by_their_tools(tmp_path: Path) -> None:
    for name in RECIPES:
        text = fill((CHECKOUT / "packaging" / name).read_text(encoding="utf-8"), "1.2.3", DATED, SUMS)
        assert "a" * 64 in text
        (tmp_path / Path(name).name).write_text(text, encoding="utf-8")
        with pytest.raises(CannotRelease, match="the field @SHA256_aarch64@"):
            fill((CHECKOUT / "packaging" / name).read_text(encoding="utf-8"), "1.2.3", DATED, {"x86_64": "a"})
    read: list[str | Path] = ["rpmspec", "--query", "--queryformat", "%{name} %{version}", tmp_path / "ktrial.spec"]
    assert subprocess.run(read, check=True, capture_output=True, text=True).stdout == "ktrial 1.2.3"
    subprocess.run(["bash", "-n", tmp_path / "PKGBUILD"], check=True)
    flake = CHECKOUT / "packaging/nix/flake.nix"
    parsed = subprocess.run(["nix-instantiate", "--parse", flake], check=True, capture_output=True, text=True).stdout
    project = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = re.findall(r'^    "([a-z-]+)[><=]', project, re.MULTILINE)
    assert [name for name in wanted if not re.search(rf"\b{name}\b", parsed)] == [], "the flake names them all"


@pytest.fixture
def unpacked() -> Iterator[Path]:
    """The start script beside the packages of one Python, in a folder that an ordinary user can enter."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        place = Path(folder) / "un packed"
        (place / "lib/python3.12").mkdir(parents=True)
        shutil.copy(CHECKOUT / "packaging/portable/ktrial", place)
        (place.parent / "tools").mkdir()
        place.parent.chmod(0o755)
        yield place


def add_program(folder: Path, name: str, script: str) -> None:
    (folder / "tools" / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / "tools" / name).chmod(0o755)


@pytest.mark.parametrize("found,told", [((), "none"), (("3.9",), " 3.9"), (("3.15", "3.10"), " 3.15 3.10")])
def test_an_archive_without_its_python_says_which_it_needs(unpacked: Path, found: tuple[str, ...], told: str) -> None:
    for name, version in zip(("python3", "python3.11"), found, strict=False):
        add_program(unpacked.parent, name, f"echo {version}")
    started = start(unpacked / "ktrial")
    assert (started.returncode, started.stdout) == (1, "")
    what, step = started.stderr.splitlines()
    assert what == f"ktrial: cannot start: this archive is for Python 3.11 to 3.14, and PATH has {told}"
    assert step.startswith("  next: install one of these (python3)")


def test_an_archive_starts_the_first_python_that_it_is_for_also_through_a_link(unpacked: Path) -> None:
    add_program(unpacked.parent, "python3", "echo 3.9")
    add_program(unpacked.parent, "python3.12", 'case $* in *version_info*) echo 3.12 ;; *) printf "%s\\n" "$@" ;; esac')
    (unpacked.parent / "link").symlink_to(unpacked / "ktrial")
    started = start(unpacked.parent / "link", "plan", "a b")
    main_file = str(unpacked / "head/ktrial/__main__.py")
    assert started.stdout.splitlines() == ["-I", "-S", main_file, "plan", "a b"], started.stderr


def test_root_starts_nothing_that_others_can_change(unpacked: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root is refused")
    (unpacked / "lib/python3.12/a.py").touch()
    os.chown(unpacked / "lib/python3.12/a.py", 65534, 65534)
    refused = subprocess.run([unpacked / "ktrial"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (5, "")
    assert refused.stderr.startswith(
        f"ktrial: {unpacked}/lib/python3.12/a.py can be changed by someone other than root"
    )


def start(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    tools = next(path for path in script.parents if (path / "tools").exists()) / "tools"
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    command = [*user, "env", f"PATH={tools}", str(script), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_wheel_is_built_from_agents_without_a_compiler(tmp_path: Path) -> None:
    source, agents = tmp_path / "source", tmp_path / "agents"
    (source / "src/ktrial").mkdir(parents=True)
    agents.mkdir()
    for name in ("setup.py", "pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(CHECKOUT / name, source)
    (source / "docs/reference").mkdir(parents=True)
    (source / "docs/reference/ktrial.1").touch()
    shutil.copy(CHECKOUT / "src/ktrial/__init__.py", source / "src/ktrial")
    for architecture in licences.ARCHITECTURES:
        (agents / f"ktrial-agent-{architecture}").write_text(architecture)
    wheel = build_wheel(source, agents, "aarch64", DATED, tmp_path)
    assert wheel.name == f"ktrial-{__version__}-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("ktrial/_bin/ktrial-agent") == b"aarch64"
        assert archive.read("ktrial/_bin/ktrial-agent-x86_64") == b"x86_64"
        assert archive.getinfo("ktrial/_bin/ktrial-agent").external_attr >> 16 & 0o777 == 0o755
        assert {one.date_time[:3] for one in archive.infolist()} == {(2023, 11, 14)}
    (agents / "ktrial-agent-aarch64").unlink()
    with pytest.raises(CannotRelease, match="cannot build the wheel for aarch64"):
        build_wheel(source, agents, "aarch64", DATED, tmp_path)
