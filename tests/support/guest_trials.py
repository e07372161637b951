# SPDX-License-Identifier: Apache-2.0
"""Trials in guests by the command, and what is read from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


def ktrial(*words: str) -> subprocess.CompletedProcess[str]:
    """The command's result."""
    argv = [sys.executable, "-m", "ktrial", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))


def trial(*words: str) -> list[dict[str, Any]]:
    """The events of a trial in guests; the last one is its comparison."""
    done = ktrial("kernel", "trial", *words, "--guest", "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["event"] == "comparison"
    return events


def contrast(found: dict[str, Any], outcome: str, arm: str) -> dict[str, Any]:
    """What is said of an arm against the control."""
    (one,) = [one for one in found["outcomes"] if one["outcome"] == outcome]
    (told,) = [each for each in one["contrasts"] if each["arm"] == arm]
    return dict(told)


def arm_like(found: dict[str, Any], part: str) -> str:
    """The arm with this in its name."""
    (arm,) = [one["arm"] for one in found["arms"] if part in one["arm"]]
    return str(arm)
