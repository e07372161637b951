# SPDX-License-Identifier: Apache-2.0
"""Writes the lists of `tests/golden/presence` anew: `python -m tests.guests.system.record`, as root on that host."""

from __future__ import annotations

import os
from pathlib import Path

from tests.guests.system.kernels import KERNELS, boot, present, release
from tests.guests.system.places import PRESENCE, patterns


def on_this_machine() -> dict[str, str]:
    """The first instance of each place of the catalog on this machine, with its value. Only reads."""
    found: dict[str, str] = {}
    for pattern in patterns():
        for path in sorted(str(path) for path in Path("/").glob(pattern.removeprefix("/"))):
            if "/debug/" in path:
                continue  # may be listed and yet closed by kernel lockdown
            try:
                found[path] = " ".join(Path(path).read_text(encoding="utf-8", errors="replace").split())
            except OSError:
                found[path] = "(cannot be read)"
            break
    return found


def write(name: str, kernel: str, found: dict[str, str]) -> None:
    """One list, sorted, with the kernel's release in its first line."""
    lines = [f"# {kernel}", *(f"{path} = {value}".rstrip() for path, value in sorted(found.items()))]
    (PRESENCE / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Records every kernel of the table, and this machine."""
    for kernel in KERNELS:
        found = present(boot(kernel))
        write(kernel.name, f"Debian {release(kernel.tree)}, QEMU", found)
    running = os.uname().release
    write(f"{'.'.join(running.split('.')[:2])}-host", f"{running}, a virtual machine", on_this_machine())


if __name__ == "__main__":
    main()
