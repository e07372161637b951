# SPDX-License-Identifier: Apache-2.0
"""A tmpfs for tests, because not every machine has one in /run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def mounted_tmpfs(folder: Path, size: str) -> Iterator[Path]:
    """Yield a tmpfs for the time of the block; tests name it to ktrial in `XDG_RUNTIME_DIR`."""
    assert os.geteuid() == 0, "this test mounts a tmpfs: run ./check as root"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,size={size}", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
