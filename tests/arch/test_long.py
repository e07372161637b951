# SPDX-License-Identifier: Apache-2.0
"""The list of tests that only the long check runs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.long import long_tests

ROOT = Path(__file__).resolve().parents[2]


def test_each_line_names_a_test_that_exists() -> None:
    assert long_tests()
    for line in long_tests():
        file, _, test = line.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        function = test.partition("[")[0]
        assert not function or re.search(rf"^ *def {function}\(", text, re.MULTILINE), line
