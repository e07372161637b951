# SPDX-License-Identifier: Apache-2.0
"""`python -m ktrial`, and the entry point of the installed command."""

import sys

from ktrial.cli.main import main


def run() -> None:
    """Run the command line of this process."""
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))


if __name__ == "__main__":
    run()
