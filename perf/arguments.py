# SPDX-License-Identifier: Apache-2.0
"""The one argument of a measurement on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def how_many(text: str) -> int:
    """Return a whole number of at least 1. Raise ArgumentTypeError for other text."""
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def argument(name: str, default: T, kind: Callable[[str], T], words: Sequence[str] | None = None) -> T:
    """Return the argument `name` from `words` or the command line. Print a usage line and exit if it is invalid."""
    parser = argparse.ArgumentParser(prog=f"python -m perf.{Path(sys.argv[0]).stem}")
    parser.add_argument("value", metavar=name, nargs="?", type=kind, default=default, help=f"by default {default}")
    found: T = parser.parse_args(words).value
    return found
