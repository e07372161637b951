# SPDX-License-Identifier: Apache-2.0
"""The user's own folders (XDG base directories)."""

from __future__ import annotations

import os
import pwd
from pathlib import Path


def _folder(variable: str, fallback: str) -> Path:
    set_to = os.environ.get(variable, "")
    base = Path(set_to) if set_to.startswith("/") else _home() / fallback
    return base / "ktrial"


def _home() -> Path:
    """Return HOME, or the home in the user database; never a folder relative to the working directory."""
    home = os.environ.get("HOME", "")
    if home.startswith("/"):
        return Path(home)
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return Path("/proc/nonexistent")  # nobody can create it, so nothing is stored


def config_folder() -> Path:
    return _folder("XDG_CONFIG_HOME", ".config")


def cache_folder() -> Path:
    """Return the folder for files that can be recreated at any time."""
    return _folder("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    return _folder("XDG_STATE_HOME", ".local/state")


def reports_folder() -> Path:
    """Return the folder for reports for which the user named no file."""
    return _folder("XDG_DATA_HOME", ".local/share") / "reports"


def tools_folder() -> Path:
    """Return the folder for tools that ktrial built for this user and can build again."""
    return _folder("XDG_DATA_HOME", ".local/share") / "tools"


def tools_work_folder() -> Path:
    return state_folder() / "tools"
