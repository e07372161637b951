# SPDX-License-Identifier: Apache-2.0
"""The page that names the files which a trial passes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"^\d+\. `([^`]+)`", (ROOT / "docs/walk-through.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert 10 < len(named) <= 20
    assert [name for name in named if not (ROOT / "src/ktrial" / name).is_file()] == []
