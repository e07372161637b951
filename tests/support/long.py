# SPDX-License-Identifier: Apache-2.0
"""Which tests are left to the long check (`./check --full`): what takes minutes more than it tells."""

from __future__ import annotations

import os
from pathlib import Path

IS_LONG = os.environ.get("KTRIAL_FUZZ") == "new"
LIST = Path(__file__).resolve().parents[1] / "long.txt"


def long_tests() -> tuple[str, ...]:
    """How the names of these tests begin."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))
