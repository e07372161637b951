# SPDX-License-Identifier: Apache-2.0
"""The script for owners of phones, on the tests' phone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ktrial.bench.adapters
from tests.support.phone import phone

ROOT = Path(__file__).resolve().parents[3]
FRAMES = Path(ktrial.bench.adapters.__file__).parent / "gfxinfo/cases/14-made/stdout"


def test_the_script_measures_the_phone_and_packs_the_results(tmp_path: Path) -> None:
    with phone() as pixel:
        (pixel.root / "system/dumpsys/gfxinfo").write_bytes(FRAMES.read_bytes().removesuffix(b"=ktrial end\n"))
        before = (pixel.left(), pixel.read("/proc/sys/net/core/somaxconn"))
        done = subprocess.run(
            ["sh", str(ROOT / "docs/try-on-a-phone.sh"), "--quick", "--root", str(tmp_path / "pixel.tar.zst")],
            env={**pixel.environment(), "KTRIAL": f"{sys.executable} -m ktrial"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "contains: facts; doctor; wake-ups; computing; frames; root" in done.stdout, done.stdout
        assert (pixel.left(), pixel.read("/proc/sys/net/core/somaxconn")) == before
    text = (tmp_path / "pixel.txt").read_text()
    assert "phone.model" in text
    assert "1 of 1 restored" in text
    assert (tmp_path / "pixel.tar.zst").stat().st_size > 1000
