# SPDX-License-Identifier: Apache-2.0
"""The digest of ktrial's own sources. It shows whether the same code wrote a document."""

from __future__ import annotations

import hashlib
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
