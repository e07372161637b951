# SPDX-License-Identifier: Apache-2.0
"""A real difference between real kernels is traced to the commit that brought it, in exact guests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guests.system.kernels import KERNELS, fetch, release
from tests.kernels.system.test_kernel_bisect import git

#: Few, since each is booted seven times at least; how many are searched is not a matter of real kernels.
COUNT, CULPRIT = 3, 1
#: Busy programs beside a thread that its timer wakes: 6.1 and 6.12 schedule it quite differently.
SCRIPT = """for i in 1 2 3; do (while :; do :; done) & done
echo '{request}' > /tmp/requests
exec ktrial-agent batch --role user /tmp/requests
"""
PARAMETERS = {"kind": "timer", "rate_per_s": 100, "duration_s": 1}
REQUEST = {"id": 1, "do": "load", "load": "wakeup", "parameters": PARAMETERS, "limit_s": 60}


@pytest.mark.timeout(7200)
def test_the_commit_that_brought_another_scheduler_is_named(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "--quiet")
    for kernel in KERNELS:
        fetch(kernel)
    for number in range(COUNT):
        kernel = KERNELS[number >= CULPRIT]
        (tree / "which").write_text(f"{kernel.tree}/boot/vmlinuz-{release(kernel.tree)}\n")
        (tree / "number").write_text(str(number))
        git(tree, "add", ".")
        git(tree, "commit", "--quiet", "-m", f"change {number}")
    words = ["--tree", str(tree), "--build", 'cp "$(cat which)" image', "--image", "image", "--limit", "400s"]
    script = SCRIPT.format(request=json.dumps(REQUEST))
    start = [sys.executable, "-m", "ktrial", "kernel", "bisect", f"HEAD~{COUNT - 1}", "HEAD", *words, "--json"]
    done = subprocess.run(
        [*start, "--outcome", "wakeup.p90_ns", "--tool", "busybox", "--", "/bin/busybox", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["why"], [commit["subject"] for commit in told["suspects"]]) == ("found", [f"change {CULPRIT}"])
