# SPDX-License-Identifier: Apache-2.0
"""The same source builds for aarch64, and what comes out starts and answers under user-mode emulation.

The compiler is Debian's, in a Debian of its own: it takes the standard library of another architecture from a package.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.debian import DebianRoot

CHECKOUT = Path(__file__).resolve().parents[2]
TARGET = "aarch64-unknown-linux-gnu"
PACKAGES = (
    "ca-certificates",
    "cargo-web",
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "libstd-rust-web-dev:arm64",
    "rustc-web",
)

pytestmark = [pytest.mark.xdist_group("aarch64"), pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cross-built agent."""
    assert os.geteuid() == 0, "this test makes and enters a system of its own: run ./check --full as root"
    folder = tmp_path_factory.mktemp("cross") / "root"
    root = DebianRoot.make(folder, *PACKAGES, architectures="amd64,arm64")
    shutil.copytree(CHECKOUT / "agent", folder / "opt/agent", ignore=shutil.ignore_patterns("target"))
    built = root.run(
        *("env", "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc"),
        *("cargo", "build", "--release", "--locked", "--target", TARGET),
        directory="/opt/agent",
        time_limit_s=1800,
    )
    assert built.returncode == 0, built.stdout
    yield folder / "opt/agent/target" / TARGET / "release/ktrial-agent"
    subprocess.run(["rm", "--recursive", "--force", "--one-file-system", folder], check=True)


def emulated(agent: Path, *arguments: str, requests: str = "") -> str:
    done = subprocess.run(
        ["qemu-aarch64-static", agent, *arguments],
        input=requests,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_a_small_static_program_for_aarch64(agent: Path) -> None:
    program = agent.read_bytes()
    assert program[:5] == b"\x7fELF\x02"
    assert int.from_bytes(program[18:20], "little") == 183  # EM_AARCH64
    assert len(program) < 6_000_000
    assert b"/lib/ld-linux-aarch64.so.1\0" not in program


def test_it_starts_and_says_hello(agent: Path) -> None:
    assert emulated(agent, "--version").startswith("ktrial-agent ")
    hello, read = emulated(
        agent,
        *("serve", "--role", "user"),
        requests='{"id":1,"do":"hello","protocol":1,"head":"0.1.0"}\n'
        '{"id":2,"do":"read","paths":["/proc/sys/vm/swappiness"]}\n',
    ).splitlines()
    assert json.loads(hello)["ok"]["architecture"] == "aarch64"
    assert json.loads(read)["ok"]["values"][0]["bytes"] == Path("/proc/sys/vm/swappiness").read_text()
