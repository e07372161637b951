# SPDX-License-Identifier: Apache-2.0
"""A guest as the host of a command: ktrial's verbs against real kernels, through sessions on the guest's line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.guest.kernels import KERNELS, Kernel, fetch, release


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def ktrial(kernel: Kernel, *words: str) -> subprocess.CompletedProcess[str]:
    """The command's result in a guest with this kernel."""
    fetch(kernel)
    argv = [sys.executable, "-m", "ktrial", "--host", f"guest:{kernel.tree}", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))


def told(kernel: Kernel, *words: str) -> Any:
    """Its JSON."""
    done = ktrial(kernel, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_facts_and_settings_are_those_of_the_guest(kernel: Kernel) -> None:
    facts = told(kernel, "facts", "kernel.release", "cpu.threads")["facts"]
    assert facts["kernel.release"]["value"] == release(kernel.tree)
    assert facts["cpu.threads"]["value"] == 2
    done = ktrial(kernel, "apply", "vm.swappiness=17", "--yes")
    assert done.returncode == 0, done.stderr
    assert "vm.swappiness" in done.stdout
    assert Path("/proc/sys/vm/swappiness").read_text() != "17\n"
