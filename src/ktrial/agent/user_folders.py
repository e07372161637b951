# SPDX-License-Identifier: Apache-2.0
"""Where a user's own files live (XDG base directories)."""

from __future__ import annotations

import os
import pwd
from pathlib import Path


def _folder(variable: str, fallback: str) -> Path:
    set_to = os.environ.get(variable, "")
    base = Path(set_to) if set_to.startswith("/") else _home() / fallback
    return base / "ktrial"


def _home() -> Path:
    """HOME, else what the system says of this user; never a folder below the working directory."""
    home = os.environ.get("HOME", "")
    if home.startswith("/"):
        return Path(home)
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        return Path("/proc/nonexistent")  # cannot be made, so nothing is kept


def config_folder() -> Path:
    return _folder("XDG_CONFIG_HOME", ".config")


def cache_folder() -> Path:
    """Return what can be made again at any time."""
    return _folder("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    return _folder("XDG_STATE_HOME", ".local/state")


def reports_folder() -> Path:
    """Pages that were written without a name being asked for."""
    return _folder("XDG_DATA_HOME", ".local/share") / "reports"


def tools_folder() -> Path:
    """Return tools that were built for this user, which can be built again."""
    return _folder("XDG_DATA_HOME", ".local/share") / "tools"


def tools_work_folder() -> Path:
    return state_folder() / "tools"
