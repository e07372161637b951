# SPDX-License-Identifier: Apache-2.0
"""The one argument that a measurement takes on its command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def how_many(text: str) -> int:
    """A whole number from 1 on. Raises ArgumentTypeError."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def argument(name: str, default: T, kind: Callable[[str], T], words: Sequence[str] | None = None) -> T:
    """The argument `name` among `words`, or of the command line; a usage line and the end where it cannot be read."""
    parser = argparse.ArgumentParser(prog=f"python -m perf.{Path(sys.argv[0]).stem}")
    parser.add_argument("value", metavar=name, nargs="?", type=kind, default=default, help=f"by default {default}")
    found: T = parser.parse_args(words).value
    return found
