# SPDX-License-Identifier: Apache-2.0
"""Starts the command line: `python -m ktrial`, and the wheel's `ktrial`."""

import sys


def run() -> int:
    """Run the command line with the process's own arguments and streams; the result is the exit status."""
    try:
        from ktrial.cli.main import main

        return main(sys.argv[1:], sys.stdout, sys.stderr)
    except KeyboardInterrupt:  # before anything was begun
        sys.stderr.write("ktrial: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(run())
