# SPDX-License-Identifier: Apache-2.0
"""What is wrong on the way to a phone, or there: each is one clear message with a next step."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.adb_device import SHELL_UID
from tests.support.phone import Phone, phone
from tests.support.terminal import eventually

TEMPORARY = "data/local/tmp"


@pytest.fixture(scope="module")
def pixel() -> Iterator[Phone]:
    with phone() as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_stays(pixel: Phone) -> Iterator[None]:
    before = pixel.left()
    yield
    assert eventually(lambda: not pixel.processes(), 10), pixel.processes()
    assert pixel.left() == before


def refusal(pixel: Phone, *words: str, host: str | None = None, status: int = 1, **more: str) -> str:
    done = pixel.ktrial(*(words or ("facts",)), host=host, more=more)
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout == ""
    assert [line[:8] for line in done.stderr.splitlines()].count("ktrial: ") == 1, done.stderr
    assert "  next: " in done.stderr, done.stderr
    return done.stderr


@contextlib.contextmanager
def plugged_out(pixel: Phone) -> Iterator[None]:
    pixel.adb("disconnect")
    try:
        yield
    finally:
        pixel.adb("disconnect")
        assert pixel.plug_in() == "device"


@contextlib.contextmanager
def adbd(pixel: Phone, **options: str) -> Iterator[None]:
    """Plug the phone in with other options of its adbd."""
    with plugged_out(pixel):
        before = {name: json.loads((pixel.folder / "adbd.json").read_text())[name] for name in options}
        pixel.set(**options)
        pixel.adb("connect", pixel.serial)
        try:
            yield
        finally:
            pixel.set(**before)


@contextlib.contextmanager
def program(pixel: Phone, name: str, script: str) -> Iterator[None]:
    """Put another program in the place of one of the phone's."""
    file = pixel.root / "system/bin" / name
    file.rename(pixel.root / "kept")
    try:
        file.write_text(f"#!/system/bin/sh\n{script}\n")
        file.chmod(0o755)
        yield
    finally:
        file.unlink()
        (pixel.root / "kept").rename(file)


@pytest.mark.parametrize("word", ["adb:-d", "adb:a b", "adb:a\n"])
def test_a_word_that_is_no_serial_number(pixel: Phone, word: str) -> None:
    assert "not a serial number" in refusal(pixel, host=word, status=2)


def test_no_adb(pixel: Phone, tmp_path: Path) -> None:
    said = refusal(pixel, PATH=str(tmp_path))
    assert "cannot find adb" in said
    assert "apt install adb" in said


def test_no_phone(pixel: Phone) -> None:
    with plugged_out(pixel):
        said = refusal(pixel)
        assert "adb lists no device" in said
        assert "USB debugging" in said
        assert "cannot find 3A04: adb does not list it" in refusal(pixel, host="adb:3A04")


def test_another_phone_that_is_not_ready_is_passed_over(pixel: Phone) -> None:
    before = (pixel.folder / "adb_keys").read_text()
    pixel.set(auth="refuse")
    (pixel.folder / "adb_keys").unlink()
    try:
        pixel.adb("connect", pixel.serial.replace("127.0.0.1", "localhost"))
        assert "unauthorized" in pixel.adb("devices").stdout
        assert pixel.ktrial("facts").returncode == 0
    finally:
        pixel.set(auth="accept")
        (pixel.folder / "adb_keys").write_text(before)
        pixel.adb("disconnect", pixel.serial.replace("127.0.0.1", "localhost"))


def test_several_phones(pixel: Phone) -> None:
    other = pixel.serial.replace("127.0.0.1", "localhost")
    pixel.adb("connect", other)
    try:
        said = refusal(pixel, status=2)
        assert pixel.serial in said
        assert f"--host adb:{other}" in said or f"--host adb:{pixel.serial}" in said
        assert pixel.ktrial("facts", host=f"adb:{other}").returncode == 0
    finally:
        pixel.adb("disconnect", other)


def test_a_phone_on_the_network_is_connected_first(pixel: Phone) -> None:
    with plugged_out(pixel):
        assert pixel.ktrial("facts", host=f"adb:{pixel.serial}").returncode == 0
        assert "Connection refused" in refusal(pixel, host="adb:127.0.0.1:1")


def test_a_phone_that_has_not_allowed_this_computer(pixel: Phone) -> None:
    (pixel.folder / "adb_keys").unlink()
    with adbd(pixel, auth="refuse"):
        said = refusal(pixel)
        assert "the phone has not allowed this computer" in said
        assert "unlock the phone and accept the question" in said


def test_a_phone_that_does_not_answer(pixel: Phone) -> None:
    with adbd(pixel, auth="silent"):
        assert "(offline)" in refusal(pixel)


def test_a_phone_with_an_old_protocol(pixel: Phone) -> None:
    with adbd(pixel, features="cmd"):
        assert "update the phone to Android 7 or newer" in refusal(pixel)


def test_no_space(pixel: Phone) -> None:
    place = pixel.root / TEMPORARY
    pixel.run("mount", "-t", "tmpfs", "-o", f"size=1m,uid={SHELL_UID},mode=771", "tmpfs", str(place))
    try:
        said = refusal(pixel)
    finally:
        pixel.run("umount", str(place))
    assert "/data/local/tmp/ktrial" in said
    assert "No space left" in said
    assert "10 MB free" in said


def test_programs_cannot_be_started_in_any_place(pixel: Phone) -> None:
    data = str(pixel.root / "data")
    pixel.run("mount", "--bind", data, data)
    pixel.run("mount", "-o", "remount,bind,noexec", data)
    try:
        said = refusal(pixel)
    finally:
        pixel.run("umount", data)
    assert "without noexec" in said


@pytest.mark.parametrize("machine, said", [("armv6l", "ktrial has no agent for its kernel (armv6l)")])
def test_a_kernel_without_an_agent(pixel: Phone, machine: str, said: str) -> None:
    with program(pixel, "uname", f"echo {machine}"):
        text = refusal(pixel)
    assert said in text
    assert "aarch64 or armv7 or x86_64" in text


def test_a_phone_without_root_says_what_root_would_add(pixel: Phone) -> None:
    su = pixel.root / "system/bin/su"
    su.rename(pixel.root / "no-su")
    try:
        said = refusal(pixel, "apply", "net.core.somaxconn=512", status=5)
        assert "has no su" in said
        assert pixel.ktrial("doctor").returncode == 0
        assert pixel.ktrial("plan", "net.core.somaxconn=512").returncode == 0
    finally:
        (pixel.root / "no-su").rename(su)


def test_an_adbd_that_is_root_needs_no_su(pixel: Phone) -> None:
    pixel.set(uid=0)
    try:
        done = pixel.ktrial("facts", "--json", "phone")
        facts = json.loads(done.stdout)["facts"]
        assert (facts["phone.root"]["value"], facts["phone.modules"]["value"]) == ("adbd", [])
        assert "asking su" not in pixel.ktrial("status").stderr
    finally:
        pixel.set(uid=SHELL_UID)


def test_root_that_is_refused(pixel: Phone) -> None:
    (pixel.root / "su").write_text("denied")
    try:
        done = pixel.ktrial("apply", "net.core.somaxconn=512")
    finally:
        (pixel.root / "su").write_text("magisk")
    assert done.returncode == 5, done.stderr
    assert "whose su refused it" in done.stderr
    assert "in the app of Magisk" in done.stderr


def test_an_agent_that_a_killed_session_left_is_removed(pixel: Phone) -> None:
    old = pixel.root / TEMPORARY / "ktrial/agents/0123"
    pixel.run("install", "-d", "-o", str(SHELL_UID), "-m", "700", *(str(one) for one in (*old.parents[:2], old)))
    (old / "ktrial-agent").write_bytes(b"old")
    pixel.run("chown", f"{SHELL_UID}", str(old / "ktrial-agent"))
    assert pixel.ktrial("facts").returncode == 0
    assert not old.exists()
