# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ktrial.bench import guest_tools
from ktrial.guests import programs
from ktrial.guests.programs import bring, bring_for
from ktrial.kit.errors import BadInput, KtrialError
from tests.support import kernels

LISTED = """\tlinux-vdso.so.1 (0x00007ffd)
\tlibx.so.1 => {folder}/libx.so.1 (0x00007f1)
\t{folder}/ld.so (0x00007f2)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs in a PATH of their own: one with a library, one without, a script, busybox."""
    files = {
        "ld.so": b"loader",
        "libx.so.1": b"library",
        "linked": kernels.elf({}, interpreter=str(tmp_path / "ld.so").encode()),
        "static": kernels.elf({}),
        "busybox": kernels.elf({"x": b"y"}),
        "script": b"#!/usr/bin/env linked\n",
        "foreign": kernels.elf({}, machine=183),
        "text": b"hello",
    }
    (tmp_path / "env").write_bytes(kernels.elf({}))
    files["script"] = f"#!{tmp_path}/env linked\n".encode()
    files["split"] = f"#!{tmp_path}/env -S A=1 linked -x\n".encode()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_output_of", lambda argv: said(argv, tmp_path))
    monkeypatch.setattr(guest_tools, "_HIDDEN", ("/run/",))
    return tmp_path


def said(argv: Sequence[str], folder: Path) -> str:
    """What the loader and busybox answer here."""
    return LISTED.format(folder=folder) if argv[1:] == ["--list", str(folder / "linked")] else "ls\nstatic\n["


def test_a_program_comes_with_its_libraries(folder: Path) -> None:
    found = bring(["linked"])
    assert sorted(Path(path).name for path in found.files) == ["ld.so", "libx.so.1", "linked"]
    assert found.tools == {"linked": str(folder / "linked")}


def test_a_program_where_the_guest_has_something_else_gets_another_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_tools, "_HIDDEN", (f"{folder}/",))
    found, program = bring_for([str(folder / "static"), "-x"], [])
    assert list(found.files) == ["/usr/bin/static"]
    assert program is not None
    assert program.argv == ("/usr/bin/static", "-x")


@pytest.mark.parametrize("name", ["script", "split"])
def test_a_script_comes_with_what_it_is_for(name: str, folder: Path) -> None:
    found = bring([str(folder / name)])
    assert sorted(Path(path).name for path in found.files) == sorted(["env", "ld.so", "libx.so.1", "linked", name])


def test_busybox_answers_to_what_no_other_program_does(folder: Path) -> None:
    found = bring(["static", "busybox"])
    assert found.links == {"/usr/bin/ls": str(folder / "busybox"), "/usr/bin/[": str(folder / "busybox")}


def test_the_program_is_brought_unless_it_is_there(folder: Path) -> None:
    found, program = bring_for(["static", "-x"], [])
    assert program is not None
    assert program.argv == (str(folder / "static"), "-x")
    assert list(found.tools) == ["static"]
    found, program = bring_for(["ls", "/"], ["busybox"])
    assert program is not None
    assert (program.argv, list(found.tools)) == (("ls", "/"), ["busybox"])
    assert bring_for(["ktrial-agent", "facts"], [])[0].files == {}
    assert bring_for([], [])[1] is None


@pytest.mark.parametrize(
    "name, why",
    [
        ("missing", "cannot find program 'missing'"),
        ("foreign", "for aarch64, but the guest is x86_64"),
        ("text", "neither a program nor"),
    ],
)
def test_what_cannot_be_brought(folder: Path, name: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        bring([name])


def test_a_missing_library_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_output_of", lambda argv: "\tliby.so.2 => not found\n")
    with pytest.raises(KtrialError, match=r"missing liby\.so\.2"):
        bring(["linked"])


def test_a_guest_of_another_architecture_takes_static_programs_of_its_own(folder: Path) -> None:
    found = bring([str(folder / "foreign")], "aarch64")
    assert list(found.files) == [str(folder / "foreign")]
    with pytest.raises(BadInput, match="for x86_64, but the guest is aarch64") as caught:
        bring(["static"], "aarch64")
    assert "`-- ktrial-agent`" in str(caught.value.hint)
    (folder / "foreign").write_bytes(kernels.elf({}, machine=183, interpreter=b"/lib/ld-linux-aarch64.so.1"))
    with pytest.raises(BadInput, match="needs libraries for aarch64"):
        bring([str(folder / "foreign")], "aarch64")


@pytest.mark.parametrize(
    "script, why",
    [
        ("echo broken >&2; exit 3", "ended with status 3: broken"),
        ("exit 3", "ended with status 3"),
        ("kill -SEGV $$", "ended with signal 11"),
    ],
)
def test_a_program_that_fails_on_this_machine_is_an_error(script: str, why: str) -> None:
    with pytest.raises(KtrialError) as caught:
        programs._output_of(["sh", "-c", script])
    assert caught.value.message.endswith(f"` {why}")
