# SPDX-License-Identifier: Apache-2.0
"""Runs pgbench repeatedly; the size of a request rises and falls over a day.

Usage: live_pgbench.py LOG FOLDER-OF-THE-SOCKET DAY_S [CPU-MAX CFS-QUOTA]
Writes a line `latency_ms NUMBER` to LOG for each run. The quota in the file CPU-MAX is carried over to the file
CFS-QUOTA of a control group of version 1.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_RUN_S = 1
_ROWS, _TIDE = 3000, 0.3
_SCRIPT = "SELECT sum(abalance) FROM (SELECT abalance FROM pgbench_accounts LIMIT :rows) AS part;\n"


def main(log: str, folder: str, day_s: str, *quota: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script, Path(log).open("a", buffering=1) as told:
        script.write(_SCRIPT)
        script.flush()
        began_s = time.monotonic()
        while True:
            if quota:
                Path(quota[1]).write_text(Path(quota[0]).read_text().split()[0])
            tide = _TIDE * math.sin(2 * math.pi * (time.monotonic() - began_s) / float(day_s))
            rows = int(_ROWS * (1 + tide))
            options = ["-n", "-M", "prepared", "-c", "1", "-T", str(_RUN_S), "-D", f"rows={rows}", "-f", script.name]
            words = ["pgbench", "-h", folder, "-U", "postgres", *options, "postgres"]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            average = re.search(r"latency average = ([0-9.]+) ms", done.stdout)
            assert average is not None, done.stdout
            told.write(f"latency_ms {average[1]}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
