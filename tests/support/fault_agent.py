# SPDX-License-Identifier: Apache-2.0
"""Builds the agent with faults: it dies at a numbered step."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

AGENT_CRATE = Path(__file__).resolve().parents[2] / "agent"


def fault_agent_with(feature: str) -> Path:
    """Return a copy of the agent with `feature`.

    It is built where `cargo test` builds, so that only the agent is compiled.
    """
    host = next(
        line.removeprefix("host: ")
        for line in subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout.splitlines()
        if line.startswith("host: ")
    )
    target, aside = AGENT_CRATE / "target", AGENT_CRATE / "target" / "fault"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_BUILD_TARGET": host}
    command = ["cargo", "build", "--quiet", "--locked", "-j2", "--features", feature]
    own, part = aside / feature, aside / f"{feature}.part"
    aside.mkdir(parents=True, exist_ok=True)
    with (aside / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(command, cwd=AGENT_CRATE, env=environment, check=True)
        shutil.copy2(target / host / "debug" / "ktrial-agent", part)
        # A program that another worker runs cannot be written to, but another file can replace it.
        part.replace(own)
    return own
