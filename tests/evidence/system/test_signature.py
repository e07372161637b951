# SPDX-License-Identifier: Apache-2.0
"""Bundles that the real ssh-keygen signs and checks: who signed, or which one thing is wrong."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ktrial.cli.app import App
from ktrial.evidence.signature import NAMESPACE, BundleSignature, check_signing, sign, signature_text, verify
from ktrial.kit.errors import BadInput, KtrialError
from tests.support.stores import a_session
from tests.support.tree import FakeRoot


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys `alice`, `bob`, and `locked`, whose passphrase is `secret`."""
    folder = tmp_path_factory.mktemp("keys")
    for name, phrase in (("alice", ""), ("bob", ""), ("locked", "secret")):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", phrase, "-C", "", "-f", str(folder / name)]
        subprocess.run(make, check=True)
    return folder


def signers(folder: Path, keys: Path, line: str) -> Path:
    """A file of signers; `{alice}` stands for her key."""
    path = folder / "signers"
    path.write_text(line.format(**{one.stem: one.read_text().strip() for one in keys.glob("*.pub")}) + "\n")
    return path


def signed(folder: Path, keys: Path) -> Path:
    bundle = folder / "b.tar.zst"
    bundle.write_bytes(b"bytes of a bundle")
    assert sign(bundle, keys / "alice") == folder / "b.tar.zst.sig"
    return bundle


@pytest.mark.parametrize(
    "line, state, quoted",
    [
        ("alice {alice}", "good", ""),
        ("a*,alice {alice}", "good", ""),
        ("bob {bob}", "unknown signer", ""),
        ("no key at all", "unknown signer", "invalid key"),
        ('alice valid-before="20200101" {alice}', "expired", "key has expired"),
        ('alice valid-after="20900101" {alice}', "not valid yet", "key is not yet valid"),
        ('alice namespaces="git" {alice}', "not permitted", "not permitted for use"),
    ],
)
def test_who_signed_or_why_the_key_does_not_count(
    tmp_path: Path, keys: Path, line: str, state: str, quoted: str
) -> None:
    found = verify(signed(tmp_path, keys), signers(tmp_path, keys, line))
    assert found.state == state, found
    assert (found.signer is not None) == (state == "good")
    assert found.key is not None
    assert found.key.startswith("ED25519 key SHA256:")
    assert quoted in (found.reason or "")


def test_what_was_changed_is_said(tmp_path: Path, keys: Path) -> None:
    bundle, alice = signed(tmp_path, keys), signers(tmp_path, keys, "alice {alice}")
    signature = tmp_path / "b.tar.zst.sig"
    good = signature.read_bytes()

    def now() -> BundleSignature:
        return verify(bundle, alice)

    bundle.write_bytes(b"bytes of a bundlf")
    assert (now().state, now().signer) == ("changed", None)
    bundle.write_bytes(b"bytes of a bundle")
    assert now().state == "good"
    for data in (b"", b"text", good[:100], b"\0" * 100_000):
        signature.write_bytes(data)
        assert now().state == "unreadable"
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", str(keys / "alice")]
    signature.write_bytes(subprocess.run(command, input=bundle.read_bytes(), check=True, capture_output=True).stdout)
    assert now().state == "other namespace"
    signature.unlink()
    assert now().state == "missing"
    assert "b.tar.zst.sig" in signature_text(now(), width=80)
    os.mkfifo(signature)
    assert now().state == "unreadable"


def test_ssh_keygen_alone_can_check_it(tmp_path: Path, keys: Path) -> None:
    bundle, alice = signed(tmp_path, keys), signers(tmp_path, keys, "alice {alice}")
    command = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", "alice", "-f", str(alice)]
    done = subprocess.run([*command, "-s", f"{bundle}.sig"], input=bundle.read_bytes(), check=False)
    assert done.returncode == 0


def test_what_cannot_work_is_said_before_anything_is_packed(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="no such file"):
        check_signing(tmp_path / "gone")
    with pytest.raises(BadInput, match="no such file"):
        verify(signed(tmp_path, keys), tmp_path / "gone")
    monkeypatch.setenv("PATH", str(tmp_path))
    for call in (lambda: check_signing(keys / "alice"), lambda: verify(tmp_path / "b.tar.zst", keys / "bob.pub")):
        with pytest.raises(KtrialError, match="ssh-keygen is not installed") as no:
            call()
        assert "openssh-client" in (no.value.hint or "")


def test_a_passphrase_is_asked_at_the_terminal_only(tmp_path: Path, keys: Path) -> None:
    """Without a terminal the bundle stays, and the error says how to sign it; at one, ssh-keygen reads the answer."""
    bundle = tmp_path / "b.tar.zst"
    bundle.write_bytes(b"bytes")
    code = "import pathlib, sys, ktrial.evidence.signature as one\none.sign(*map(pathlib.Path, sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(bundle), str(keys / "locked")]
    asks = {**os.environ, "DISPLAY": ":9", "SSH_ASKPASS": "/bin/false"}
    away = subprocess.run(command, start_new_session=True, capture_output=True, text=True, env=asks, check=False)
    assert "incorrect passphrase" in away.stderr
    assert not (tmp_path / "b.tar.zst.sig").exists()
    child, terminal = pty.fork()
    if not child:
        os.execve(command[0], command, asks)
    text = b""
    while b"passphrase" not in text:
        text += os.read(terminal, 100)
    os.write(terminal, b"secret\n")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)
    assert verify(bundle, signers(tmp_path, keys, "me {locked}")).signer == "me"


def test_a_bundle_is_signed_and_checked_by_the_command(
    root: FakeRoot, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = App(may_ask=False, machine_root=root.folder)
    app.store.begin(a_session())
    app.close()
    made = root.run("bundle", "b.tar.zst", "--sign", str(keys / "alice"), "--json")
    assert (made.status, made.json["signature"]) == (0, "b.tar.zst.sig"), made.err
    assert re.search(r"signing b\.tar\.zst with .*alice; ssh-keygen asks", made.err)
    alice = str(signers(tmp_path, keys, "alice {alice}"))
    checked = root.run("bundle", "--verify", "b.tar.zst", "--signers", alice)
    assert (checked.status, checked.err) == (0, "")
    assert "signer      alice" in checked.out
    assert "next        ktrial recheck b.tar.zst" in checked.out
    document = root.run("bundle", "--verify", "b.tar.zst", "--signers", alice, "--json").json
    assert (document["schema"], document["signature"]["state"]) == ("ktrial.signature/1", "good")
    assert root.run("bundle", "b.tar.zst", "--sign", str(keys / "alice")).status == 2
    assert root.run("bundle", "b.tar.zst", "--force").status == 0
    (tmp_path / "signers").write_text("")
    told = root.run("bundle", "--verify", "b.tar.zst", "--signers", alice)
    assert told.status == 1
    assert "none of these signers has the key" in told.out
    for words in (["--verify"], ["--verify", "--signers", alice, "--force"], ["--signers", alice]):
        assert root.run("bundle", "b.tar.zst", *words).status == 2
