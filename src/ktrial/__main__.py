# SPDX-License-Identifier: Apache-2.0
"""Starts the command line: `python -m ktrial`, and the wheel's `ktrial`."""

import os
import sys

from ktrial.cli.main import main


def run() -> int:
    """Run the command line with the process's own arguments and streams; the result is the exit status."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 (open as long as the process lives)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (as above)
    if sys.stdout is None:
        sys.stderr.write("ktrial: standard output is closed, so nothing was done\n")
        return 1
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    return main(sys.argv[1:], sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(run())
