# SPDX-License-Identifier: Apache-2.0
"""Starts the command line: `python -m ktrial`, and the wheel's `ktrial`."""

import sys

from ktrial.cli.main import main


def run() -> int:
    """Run the command line with the process's own arguments and streams; the result is the exit status."""
    return main(sys.argv[1:], sys.stdout, sys.stderr)


if __name__ == "__main__":
    sys.exit(run())
