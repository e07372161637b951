# SPDX-License-Identifier: Apache-2.0
"""Where a user's own files live (XDG base directories)."""

from __future__ import annotations

import os
from pathlib import Path


def _folder(variable: str, fallback: str) -> Path:
    set_to = os.environ.get(variable, "")
    base = Path(set_to) if set_to.startswith("/") else Path.home() / fallback
    return base / "ktrial"


def config_folder() -> Path:
    """Own knobs, profiles, suites."""
    return _folder("XDG_CONFIG_HOME", ".config")


def cache_folder() -> Path:
    """What can be made again at any time."""
    return _folder("XDG_CACHE_HOME", ".cache")


def state_folder() -> Path:
    """Results."""
    return _folder("XDG_STATE_HOME", ".local/state")
