# SPDX-License-Identifier: Apache-2.0
"""The formats offered on the command line are those that can be read."""

from __future__ import annotations

from typing import get_args

from ktrial.cli.verbs.profile import FORMATS
from ktrial.tuning.origin.formats.sniff import READERS, Format


def test_all_formats_are_offered() -> None:
    assert set(FORMATS) == set(get_args(Format)) == set(READERS)
