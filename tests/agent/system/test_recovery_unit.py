# SPDX-License-Identifier: Apache-2.0
"""The unit that recovers at boot: systemd takes what is put in place, and all of it can be taken away."""

import os
import subprocess
from pathlib import Path

UNIT = "etc/systemd/system/ktrial-recover.service"
LINK = "etc/systemd/system/sysinit.target.wants/ktrial-recover.service"
AGENT = "usr/local/libexec/ktrial/ktrial-agent"


def test_systemd_takes_the_unit(fault_agent: Path, tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, the copy is the agent itself, and removing leaves no file."""
    for folder in ("etc", "var/lib"):
        (tmp_path / folder).mkdir(parents=True)
    subprocess.run([fault_agent, "install-recovery", "--root", tmp_path], check=True)
    assert (tmp_path / AGENT).read_bytes() == fault_agent.read_bytes()
    assert os.access(tmp_path / AGENT, os.X_OK)
    assert (tmp_path / LINK).resolve() == tmp_path / UNIT
    # The unit as it is, but for the place of the copy, which is below the temporary root.
    text = (tmp_path / UNIT).read_text().replace(f"/{AGENT}", str(tmp_path / AGENT))
    unit = tmp_path / "ktrial-recover.service"
    unit.write_text(text)
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    unit.write_text(text.replace("ExecStart=", "ExecStrt="))
    broken = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert "ExecStrt" in broken.stderr
    unit.unlink()
    subprocess.run([fault_agent, "remove-recovery", "--root", tmp_path], check=True)
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
