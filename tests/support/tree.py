# SPDX-License-Identifier: Apache-2.0
"""A fake machine as a folder, on which the command line runs through the real agent."""

from __future__ import annotations

import io
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ktrial.cli.main import main
from ktrial.tuning.catalog.cache import compiled_catalog

FILES = {
    "/proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/page-cluster": "3\n",
    "/proc/sys/vm/vfs_cache_pressure": "100\n",
    "/proc/sys/vm/watermark_scale_factor": "10\n",
    "/proc/sys/vm/min_free_kbytes": "67584\n",
    "/proc/sys/vm/dirty_background_ratio": "10\n",
    "/proc/sys/vm/dirty_background_bytes": "0\n",
    "/proc/sys/vm/dirty_ratio": "20\n",
    "/proc/sys/vm/dirty_bytes": "0\n",
    "/proc/sys/vm/stat_interval": "1\n",
    "/proc/sys/net/ipv4/tcp_syncookies": "1\n",
    "/run/systemd/system/README": "",
    "/etc/sysctl.d/README": "",
    "/proc/meminfo": "MemTotal:       32000000 kB\nMemAvailable:   12000000 kB\n",
}


def add_knobs(root: Path, *places: str) -> Path:
    """Let the agent write these knobs on the machine at `root` although the catalog lacks them; return the file."""
    folder = root / "etc/ktrial/knobs.d"
    folder.mkdir(parents=True, exist_ok=True)
    knob = f'[[knob]]\nid = "fake"\nkind = "sysfs"\nplaces = {json.dumps(places)}\n'
    file = folder / "of-a-test.toml"
    file.write_text(knob)
    file.chmod(0o644)
    return file


def use_compiled_catalog(home: Path) -> None:
    """Put the compiled catalog into a home folder, as the first command of ktrial there would."""
    folder = home / ".cache/ktrial"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "catalog.msgpack").write_bytes(_compiled_catalog())


@cache
def _compiled_catalog() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "catalog.msgpack"
        compiled_catalog(file)
        return file.read_bytes()


class FakeRoot:
    """A folder that stands for `/`, with a state folder in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path, text in FILES.items():
            self.write(path, text)

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def read(self, path: str) -> str:
        """Return the content of a file of the machine."""
        return (self.folder / path.lstrip("/")).read_text()

    def values(self) -> dict[str, str]:
        """Return all files of `proc` and `sys`."""
        tops = [self.folder / top for top in ("proc", "sys") if (self.folder / top).exists()]
        return {
            str(p.relative_to(self.folder)): p.read_text()
            for top in tops
            for p in sorted(top.rglob("*"))
            if p.is_file()
        }

    def run(self, *argv: str) -> Ran:
        """Run one command of ktrial on this machine."""
        out, err = io.StringIO(), io.StringIO()
        status = main(["--machine-root", str(self.folder), *argv], out, err)
        return Ran(status, out.getvalue(), err.getvalue())


class Ran:
    """The result of a command."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        """Return the command's stdout as JSON."""
        return json.loads(self.out)
