# SPDX-License-Identifier: Apache-2.0
"""A small file system for a guest's disk in memory: the same bytes each time, so that exact guests stay exact."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from ktrial.kit.errors import KtrialError

TYPE = "ext4"
#: Where the guest's first process looks for the image.
PLACE = "/ktrial/disk"
#: What a kernel needs for it where that is not built in; the last one not any more since 6.14.
MODULES, MODULES_OF_SOME = ("brd", "ext4"), ("crc32c_generic",)
_PROGRAM = "mkfs.ext4"
_BYTES = 8 << 20
_NUMBER = "6b747269-616c-4000-8000-000000000000"
_TIME = "1704067200"
_LIMIT_S = 30.0


def program() -> str | None:
    return shutil.which(_PROGRAM, path=_path())


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def image(work: Path | None = None) -> bytes:
    """An empty file system. It has room for names; files in it that are all holes may be as large as they like."""
    made_by = program()
    if made_by is None:
        raise KtrialError(f"a guest with a disk needs {_PROGRAM}, which is not here", hint="install e2fsprogs")
    with TemporaryDirectory(prefix="disk-", dir=work) as folder:
        file = Path(folder) / "disk"
        with file.open("wb") as made:
            made.truncate(_BYTES)
        argv = [made_by, "-q", "-F", "-O", "^has_journal", "-m", "0", "-U", _NUMBER, "-E", f"hash_seed={_NUMBER}"]
        environment = {"PATH": _path(), "E2FSPROGS_FAKE_TIME": _TIME, "SOURCE_DATE_EPOCH": _TIME, "LC_ALL": "C"}
        try:
            subprocess.run(
                [*argv, str(file)], env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=True
            )
        except subprocess.CalledProcessError as error:
            raise KtrialError(f"{made_by} ended with status {error.returncode}: {error.stderr.strip()}") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KtrialError(f"{made_by}: {error}") from None
        return file.read_bytes()
