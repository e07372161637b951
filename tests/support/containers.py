# SPDX-License-Identifier: Apache-2.0
"""An image that contains only busybox, and the user's own benchmarks, which run in it."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.user import User

BUSYBOX = Path("/bin/busybox")
APPLETS = ("sh", "sleep", "cat", "id", "ls", "touch", "echo")
BENCHMARKS = {
    "looks": """argv = ["sh", "-c", "id -u; echo /sys/class/net/* /*; pwd; touch here; touch /no || echo speed: 5"]
[[metric]]
name = "speed_count"
direction = "higher"
match = "speed: ([0-9]+)"
""",
    "stubborn": 'argv = ["sh", "-c", "trap : TERM INT; sleep 71 & sleep 72; sleep 71"]\nlimit_s = 2\n',
    "endless": 'argv = ["sh", "-c", "trap : TERM INT; sleep 71 & sleep 72; sleep 71"]\nlimit_s = 300\n',
    "absent": 'argv = ["git", "--version"]\n',
}


def give(user: User, files: Mapping[str, str]) -> None:
    """Give the user the image as `image.tar`, the benchmarks, and further files of ~/.config."""
    own = {
        f"ktrial/benchmarks/{name}.toml": f'name = "{name}"\nwhat = "A test."\n{text}'
        for name, text in BENCHMARKS.items()
    }
    for name, text in {**own, **files}.items():
        path = user.home / ".config" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    _image(user.home / "image.tar")
    subprocess.run(["chown", "--recursive", f"{user.name}:", user.home], check=True)


def _image(path: Path) -> None:
    """Write an image with a root file system of busybox."""
    with tarfile.open(path, "w") as tar:
        for name in ("bin", "tmp", "etc", "proc", "sys", "dev", "run"):
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            folder.mode = 0o755
            tar.addfile(folder)
        tar.add(BUSYBOX.resolve(), "bin/busybox")
        for name in APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type = tarfile.SYMTYPE
            link.linkname = "busybox"
            tar.addfile(link)
        tar.addfile(tarfile.TarInfo("etc/passwd"), io.BytesIO())


def ktrial(user: User, *words: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return user.start("./ktrial", *words, environment={"COLUMNS": "100", **(environment or {})})


def started(
    user: User, *words: str, said: Path = Path(os.devnull), environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start ktrial in the background, and return when the benchmark runs in the container.

    The output goes to a file.
    """
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [*user.become(), "/usr/bin/env", *variables, "./ktrial", *words],
            cwd=user.checkout,
            stderr=stderr,
            stdout=subprocess.DEVNULL,
        )
    wait_until(lambda: sleepers(user) == 2 or process.poll() is not None)
    assert process.poll() is None
    return process


def wait_until(holds: Callable[[], bool], limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def processes(user: User) -> list[int]:
    found = subprocess.run(["pgrep", "-u", str(user.uid)], capture_output=True, text=True, check=False).stdout
    return [int(line) for line in found.split()]


def sleepers(user: User) -> int:
    """Return the number of running processes of the endless benchmark."""
    listed = subprocess.run(["pgrep", "-u", str(user.uid), "-fx", "sleep 7[12]"], capture_output=True, check=False)
    return listed.stdout.count(b"\n")
