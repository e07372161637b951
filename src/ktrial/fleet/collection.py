# SPDX-License-Identifier: Apache-2.0
"""Finds the Ansible collection `ktrial.tuning`, which is beside this module."""

from __future__ import annotations

import sys
from pathlib import Path


def path() -> Path:
    """Return the folder that `ANSIBLE_COLLECTIONS_PATH` must contain."""
    return Path(__file__).parent


if __name__ == "__main__":
    sys.stdout.write(f"{path()}\n")
