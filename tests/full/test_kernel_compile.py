# SPDX-License-Identifier: Apache-2.0
"""A real kernel, as small as its tree makes it, is built from Debian's sources."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import ktrial.bench.adapters
from ktrial.cli.main import main
from tests.guests.system.sources import whole_tree
from tests.support.memory import mounted_tmpfs

#: What `make tinyconfig` made of these sources.
TINY = Path(ktrial.bench.adapters.__file__).parent / "kernel_compile/cases/6.12-tinyconfig/files/build/.config"
LIMIT_S = 1800
pytestmark = pytest.mark.timeout(3 * LIMIT_S)


def tiny_64() -> str:
    """The small configuration for 64 bits: Debian's Clang cannot build these sources for 32."""
    lines = [line for line in TINY.read_text().splitlines() if "CONFIG_64BIT" not in line and "_X86_32=" not in line]
    return "\n".join([*lines, "CONFIG_64BIT=y", ""])


@pytest.mark.parametrize("benchmark, config", [("kernel-compile", "tinyconfig"), ("kernel-compile-llvm", None)])
def test_a_real_kernel(benchmark: str, config: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    result, tree = tmp_path / "result.json", whole_tree()
    own = tmp_path / "own.config"
    own.write_text(tiny_64())
    words = [
        "-n",
        "1",
        "-o",
        str(result),
        "-p",
        f"tree={tree}",
        "-p",
        f"config={config or own}",
        "-p",
        "target=bzImage",
    ]
    with mounted_tmpfs(tmp_path / "memory", "1g") as memory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(memory))
        err = io.StringIO()
        assert main(["bench", benchmark, *words], io.StringIO(), err) == 0, err.getvalue()
    warm_up, record = json.loads(result.read_text())["runs"]
    assert (warm_up["round"], record["round"]) == (0, 1)
    assert "; Linux 6.12" in record["tool_version"]
    assert record["details"]["symbols"] > 100
    values = {one["outcome"]: one["value"] for one in record["measurements"]}
    assert values["user"] + values["system"] > 5
