# SPDX-License-Identifier: Apache-2.0
"""The examples of the library print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", (ROOT / "docs/library.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("program, printed", EXAMPLES)
def test_an_example_prints_what_the_page_says(program: str, printed: str) -> None:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (printed, "")


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 2
