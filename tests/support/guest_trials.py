# SPDX-License-Identifier: Apache-2.0
"""Runs trials in guests with the command, and reads their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def ktrial(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ktrial and return the result."""
    argv = [sys.executable, "-m", "ktrial", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))


def trial(*words: str) -> list[dict[str, Any]]:
    """Return the events of a trial in guests; the last event is the comparison."""
    done = ktrial("kernel", "trial", *words, "--guest", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["event"] == "comparison"
    return events


def contrast(found: dict[str, Any], outcome: str, arm: str) -> dict[str, Any]:
    """Return the contrast between an arm and the control."""
    (one,) = [one for one in found["outcomes"] if one["outcome"] == outcome]
    (told,) = [each for each in one["contrasts"] if each["arm"] == arm]
    return dict(told)


def arm_like(found: dict[str, Any], part: str) -> str:
    """Return the arm whose name contains this part."""
    (arm,) = [one["arm"] for one in found["arms"] if part in one["arm"]]
    return str(arm)
