# SPDX-License-Identifier: Apache-2.0
"""The list of SHA-256 sums, and its signature by an SSH key."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from release import CannotRelease

SUMS = "SHA256SUMS"
#: What the signature is for: a signature of the same key on something else is not one of a release.
NAMESPACE = "ktrial-release"


def write_sums(folder: Path) -> Path:
    """List all files of `folder` in the form that `sha256sum --check` reads."""
    sums = folder / SUMS
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(SUMS))
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    sums.write_text("".join(lines), encoding="utf-8")
    return sums


def sign(sums: Path, key: Path) -> Path:
    """Sign the list; ssh-keygen asks for the key's passphrase, or the user's agent has it."""
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)
    command = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(sums)]
    if subprocess.run(command, check=False).returncode != 0:
        raise CannotRelease(
            f"cannot sign {sums.name} with {key}: ssh-keygen's message is above",
            hint="name the file of an SSH key that you can use: --sign ~/.ssh/id_ed25519",
        )
    return signature
