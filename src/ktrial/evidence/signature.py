# SPDX-License-Identifier: Apache-2.0
"""Signatures of bundles: OpenSSH signatures in a file of their own, made and checked by `ssh-keygen -Y`.

ktrial reads no key and no passphrase: ssh-keygen does, and asks at the terminal.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.files import read_file, why_unread
from ktrial.kit.tables import labelled

#: The purpose in the signature; a signature for another purpose does not count.
NAMESPACE = "ktrial-bundle"
SUFFIX = ".sig"
_LARGEST_BYTES = 64 << 10
_INSTALL = "install OpenSSH's programs (openssh-client, or openssh on Fedora and Arch)"
State = Literal[
    "good",
    "missing",
    "unreadable",
    "changed",
    "other namespace",
    "unknown signer",
    "expired",
    "not valid yet",
    "not permitted",
]
#: Phrases in the messages of ssh-keygen, and the states that they mean.
_WRONG: Mapping[str, State] = {"incorrect signature": "changed", "namespace does not match": "other namespace"}
_UNTRUSTED: Mapping[str, State] = {
    "has expired": "expired",
    "not yet valid": "not valid yet",
    "not permitted for use in signature namespace": "not permitted",
}
_SENTENCES: Mapping[State, str] = {
    "good": "the signature is good",
    "missing": "it has no signature",
    "unreadable": "its signature is not an OpenSSH signature",
    "changed": "its bytes are not those that were signed",
    "other namespace": f"its signature was made for something else, not for {NAMESPACE}",
    "unknown signer": "none of these signers has the key",
    "expired": "the signer's key has expired",
    "not valid yet": "the signer's key is not valid yet",
    "not permitted": f"the signer's key may not sign for {NAMESPACE}",
}


class BundleSignature(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a bundle's signature.

    `signer` is the name in the file of signers, known only if the state is `good`. `key` is the type and fingerprint of
    the key; it does not show who owns the key. `reason` quotes ssh-keygen.
    """

    file: str
    signature: str
    state: State
    signer: str | None = None
    key: str | None = None
    reason: str | None = None

    @property
    def sentence(self) -> str:
        return _SENTENCES[self.state]

    @property
    def next_step(self) -> str:
        """What the user should do next: a command, or an imperative."""
        if self.state == "good":
            return f"ktrial recheck {self.file}"
        if self.state == "missing":
            return f"fetch {self.signature} into the folder of the bundle"
        if self.state in {"changed", "unreadable", "other namespace"}:
            return "fetch the bundle and its signature again, or ask its author for both"
        if self.state == "unknown signer":
            return "add a line `NAME KEY` to the file of signers only if you know from elsewhere whose key it is"
        return "check valid-after, valid-before and namespaces of the key in the file of signers"


def signature_of(bundle: Path) -> Path:
    return bundle.with_name(bundle.name + SUFFIX)


def check_signing(key: Path) -> None:
    """Raise KtrialError if signing with this key cannot work."""
    _program("sign")
    if not key.is_file():
        problem = "not a file" if key.exists() else "no such file"
        raise BadInput(
            f"cannot sign with {key}: {problem}", hint="name a private key, or KEY.pub if ssh-agent has the private key"
        )


def sign(bundle: Path, key: Path) -> Path:
    """Sign a bundle; return the file with the signature."""
    place = signature_of(bundle)
    by_hand = f"sign the bundle with `ssh-keygen -Y sign -n {NAMESPACE} -f {key} {bundle}`"
    done = _run("sign", ["-q", "-n", NAMESPACE, "-f", str(key)], bundle)
    if done.returncode or not done.stdout:
        reason = _message(done) or f"ssh-keygen ended with status {done.returncode}"
        raise KtrialError(f"cannot sign {bundle}: {reason}", hint=f"{by_hand}; the bundle is complete")
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        part.write_bytes(done.stdout)
        part.replace(place)
    except OSError as error:
        part.unlink(missing_ok=True)
        room = f"make room in {place.parent} or make that folder writable"
        hint = f"{room}, then {by_hand}; the bundle is complete"
        raise KtrialError(f"cannot write {place}: {error.strerror}", hint=hint) from None
    return place


def verify(bundle: Path, signers: Path) -> BundleSignature:
    """Check the signature beside a bundle against a file of signers, in OpenSSH's format `allowed_signers`."""
    place = signature_of(bundle)
    for path in (bundle, signers):
        if not path.is_file():
            lines = "name a file with lines `NAME KEY`, as `man ssh-keygen` describes"
            hint = lines if path == signers else "check the path of the bundle"
            raise BadInput(f"{path}: {'not a file' if path.exists() else 'no such file'}", hint=hint)
    _program("verify")
    found = BundleSignature(file=str(bundle), signature=str(place), state="missing")
    if not place.exists():
        return found
    try:
        read_file(place, _LARGEST_BYTES)
    except BadInput as error:
        return msgspec.structs.replace(found, state="unreadable", reason=error.message)
    checked = _run("check-novalidate", ["-n", NAMESPACE, "-s", str(place)], bundle)
    if checked.returncode:
        state = _state(_message(checked), _WRONG, "unreadable")
        return msgspec.structs.replace(found, state=state, reason=_message(checked))
    key = checked.stdout.decode("utf-8", "replace").strip().rpartition(" with ")[2] or None
    found = msgspec.structs.replace(found, key=key)
    named = _run("find-principals", ["-s", str(place), "-f", str(signers)])
    names = [line for line in named.stdout.decode("utf-8", "replace").splitlines() if line]
    last = named
    for name in names if not named.returncode else ():
        last = _run("verify", ["-n", NAMESPACE, "-f", str(signers), "-I", name, "-s", str(place)], bundle)
        if not last.returncode:
            return msgspec.structs.replace(found, state="good", signer=name)
    state = _state(_message(last), _UNTRUSTED, "unknown signer")
    return msgspec.structs.replace(found, state=state, reason=_message(last) or None)


def signature_text(found: BundleSignature, *, width: int) -> str:
    """Return who signed a bundle, or why its signature does not count."""
    rows = [("bundle", found.file), ("signature", found.sentence)]
    rows += [("signer", found.signer)] if found.signer is not None else []
    rows += [("key", found.key)] if found.key is not None else []
    rows += [("ssh-keygen", found.reason)] if found.reason else []
    rows.append(("next", found.next_step))
    return "\n".join(labelled(label, text, width=width) for label, text in rows) + "\n"


def _state(said: str, meanings: Mapping[str, State], other: State) -> State:
    return next((state for part, state in meanings.items() if part in said), other)


def _message(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the first message of ssh-keygen that says more than "failed"; empty if there is none."""
    lines = done.stderr.decode("utf-8", "replace").replace("Enter passphrase: ", "").splitlines()
    general = ("No principal matched", "Could not verify signature")
    return next((line.strip() for line in lines if line.strip() and not line.startswith(general)), "")


def _program(verb: str) -> str:
    found = shutil.which("ssh-keygen")
    if found is None:
        raise KtrialError(f"cannot {verb} the bundle: ssh-keygen is not installed", hint=_INSTALL)
    return found


def _run(verb: str, arguments: list[str], data: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run `ssh-keygen -Y VERB` with the bytes of a file as its input."""
    # Without this, ssh-keygen could ask for the passphrase in a window instead of at the terminal.
    environment = {**os.environ, "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}
    command = [_program(verb), "-Y", verb, *arguments]
    try:
        with Path(data or os.devnull).open("rb") as file:
            return subprocess.run(command, stdin=file, capture_output=True, env=environment, check=False)
    except OSError as error:
        raise BadInput(
            f"{data or command[0]}: {why_unread(error)}", hint="check the path and its permissions"
        ) from None
