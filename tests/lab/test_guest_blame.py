# SPDX-License-Identifier: Apache-2.0
"""Of four words on the command line of exact guests the one that makes wake-ups late is named, and no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guests.system.kernels import KERNELS, fetch

pytestmark = [pytest.mark.timeout(7200), pytest.mark.xdist_group("guest-trials")]
KERNEL = KERNELS[-1]
#: Without it timers fire at the next tick of 4 ms.
CULPRIT = "highres=off"
OTHERS = ("audit=0", "transparent_hugepage=never", "skew_tick=1")


def test_the_word_that_did_it_is_named_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fetch(KERNEL)
    boots = [part for word in (OTHERS[0], CULPRIT, *OTHERS[1:]) for part in ("--boot", word)]
    measured = ("--suite", "wakeups-busy", "--primary", "lateness-p50", "--known", "worse", "--seed", "1", "--json")
    argv = [sys.executable, "-m", "ktrial", "blame", *boots, "--kernel", str(KERNEL.tree), *measured]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    blame = json.loads(done.stdout.splitlines()[-1])["blame"]
    assert [(one["factors"], one["kind"]) for one in blame["culprits"]] == [([f"boot:{CULPRIT}"], "alone")]
    assert blame["suspects"] == []
