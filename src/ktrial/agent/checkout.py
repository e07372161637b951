# SPDX-License-Identifier: Apache-2.0
"""Files that the set-up and ktrial created for this user, and their removal."""

from __future__ import annotations

import shutil
from pathlib import Path

from ktrial.agent.user_folders import (
    cache_folder,
    config_folder,
    reports_folder,
    state_folder,
    tools_folder,
    tools_work_folder,
)

_MADE_BY_SETUP = (".venv", ".setup", "agent/target")
#: The folder in which root adds knobs.
_FOLDER_OF_ROOT = Path("/etc/ktrial")


def checkout_folder() -> Path | None:
    """Return the checkout from which this ktrial runs; None if ktrial is installed."""
    package = Path(__file__).resolve().parent.parent
    return package.parent.parent if package.parent.name == "src" else None


def remove_own_files() -> list[str]:
    """Remove the cache, the tools that ktrial built and the set-up's files in the checkout; return their folders."""
    checkout = checkout_folder()
    made = [checkout / name for name in _MADE_BY_SETUP] if checkout is not None else []
    removed = []
    for folder in (cache_folder(), tools_folder(), tools_work_folder(), *made):
        if folder.is_symlink():
            shutil.rmtree(folder.resolve(), ignore_errors=False)
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
        else:
            continue
        removed.append(str(folder))
    return removed


def remaining_files() -> list[str]:
    """Return the existing folders that an uninstall leaves alone: the user's, root's, and the checkout."""
    checkout = checkout_folder()
    own = [config_folder(), state_folder(), reports_folder(), _FOLDER_OF_ROOT]
    return [str(folder) for folder in (*own, *([checkout] if checkout is not None else [])) if folder.exists()]
