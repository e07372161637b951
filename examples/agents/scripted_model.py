#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for a language model: prints the next line of ANSWERS each time it is started, and nothing after the last.

    scripted_model.py ANSWERS

It keeps its place in ANSWERS.at. What it is told (on stdin) goes to ANSWERS.asked, a line each time.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Print one line."""
    answers = Path(sys.argv[1])
    place = answers.with_name(f"{answers.name}.at")
    at = int(place.read_text()) if place.exists() else 0
    with answers.with_name(f"{answers.name}.asked").open("a") as asked:
        asked.write(sys.stdin.read().replace("\n", " ") + "\n")
    lines = answers.read_text().splitlines()
    place.write_text(str(at + 1))
    print(*lines[at : at + 1], sep="\n", end="")


if __name__ == "__main__":
    main()
