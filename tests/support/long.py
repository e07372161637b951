# SPDX-License-Identifier: Apache-2.0
"""Lists the tests of the long check (`./check --full`), which take minutes more than they are worth in every check."""

from __future__ import annotations

import os
from pathlib import Path

IS_LONG = os.environ.get("KTRIAL_FUZZ") == "new"
LIST = Path(__file__).resolve().parents[1] / "long.txt"


def long_tests() -> tuple[str, ...]:
    """Return the prefixes of these tests' names."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))
