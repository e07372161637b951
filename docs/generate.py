# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/ and the agent's list of knobs' paths anew.

Run it with the checkout's Python after a change of the catalog or of a command.
"""

from __future__ import annotations

from pathlib import Path

from ktrial import __version__
from ktrial.cli.main import cli
from ktrial.cli.manpage import commands_page, manual_page
from ktrial.kernels.uarch.target_files import load_targets
from ktrial.kernels.uarch.targets_text import targets_page
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.knobs.allowed_paths import allowed_paths
from ktrial.tuning.knobs.reference import reference_pages

REFERENCE = Path(__file__).resolve().parent / "reference"
#: What the agent writes and reads as root, built into it.
ALLOWED = REFERENCE.parents[1] / "agent" / "src" / "transact" / "allow" / "catalog.txt"


def pages() -> dict[str, str]:
    """File name -> text of every generated page."""
    return {
        **reference_pages(load_catalog()),
        "kernel-targets.md": targets_page(load_targets()),
        "commands.md": commands_page(cli, "ktrial"),
        "ktrial.1": manual_page(cli, "ktrial", __version__),
    }


def write() -> None:
    """Write all pages and take away what is no longer generated."""
    REFERENCE.mkdir(exist_ok=True)
    wanted = pages()
    for old in REFERENCE.iterdir():
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    ALLOWED.write_text(allowed_paths(load_catalog().knobs.values()), encoding="utf-8")


if __name__ == "__main__":
    write()
