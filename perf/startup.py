# SPDX-License-Identifier: Apache-2.0
"""Start-up of the command against `python -c 'import click'`.

Run in a checkout that is set up:  .venv/bin/python -m perf.startup
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from perf.side_by_side import measure, report

ROOT = Path(__file__).resolve().parents[1]
PEER = "python -c 'import click'"
ROUNDS = 40


def run(*argv: str) -> None:
    """One process, its output thrown away."""
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Measure and print; 1 when a goal was missed."""
    python = str(ROOT / ".venv/bin/python")
    actions = {
        PEER: partial(run, python, "-I", "-c", "import click"),
        "./ktrial --version": partial(run, str(ROOT / "ktrial"), "--version"),
        "./ktrial explain vm.swappiness": partial(run, str(ROOT / "ktrial"), "explain", "vm.swappiness"),
        "launcher alone (sh, nothing to do)": partial(
            run, "/bin/sh", "-c", f'root={ROOT}; . "$root/setup/ready.sh"; is_ready'
        ),
    }
    goals = {"./ktrial --version": 1.6, "./ktrial explain vm.swappiness": 1.6}
    return 0 if report(measure(actions, ROUNDS), PEER, goals) else 1


if __name__ == "__main__":
    sys.exit(main())
