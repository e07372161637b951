# SPDX-License-Identifier: Apache-2.0
"""ktrial's own code: a digest that shows whether the same code wrote a document, and how to add packages."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


@cache
def code_sha256(package: Path = _PACKAGE) -> str:
    """Return the digest of all modules and catalogs. It changes with the code, even if the version number does not."""
    digest = hashlib.sha256()
    for path in sorted(one for one in package.rglob("*") if one.suffix in {".py", ".toml"}):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(package)} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def install_step(requirement: str, extra: str) -> str:
    """Return how to add an optional package to this ktrial.

    The Debian package and the archive load only their own packages, none that pip installs.
    """
    if sys.flags.no_site and _PACKAGE.parent.name != "src":
        return f"install ktrial with pip, for example  pipx install 'ktrial[{extra}]'"
    return f"{sys.executable} -m pip install '{requirement}'"
