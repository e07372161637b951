# SPDX-License-Identifier: Apache-2.0
"""Builds the agent into the wheel, as `ktrial/_bin/ktrial-agent`. Everything else is in pyproject.toml."""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools_rust import Binding, RustExtension


class AnyPython(bdist_wheel):
    """A wheel for one kind of machine and every Python 3: it holds a program, not an extension module."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, ABI and platform of the wheel."""
        return "py3", "none", super().get_tag()[2]


def prepare_environment() -> None:
    """Set what cargo must see for a static agent.

    The target is named even where it is the host: only then are the flags of a static build kept from the compiler's
    own plug-ins. Flags of the environment would replace those of the configuration. rustup's folder is often missing
    in PATH.
    """
    os.environ["PATH"] += os.pathsep + str(Path.home() / ".cargo" / "bin")
    rustc = shutil.which("rustc")
    if rustc is None:
        raise SystemExit("ktrial's agent is built with a Rust compiler from 1.85: no rustc in PATH or ~/.cargo/bin")
    told = subprocess.run([rustc, "-vV"], check=True, capture_output=True, text=True).stdout
    host = next(line.removeprefix("host: ") for line in told.splitlines() if line.startswith("host: "))
    os.environ.setdefault("CARGO_BUILD_TARGET", host)
    for flags in ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"):
        os.environ.pop(flags, None)


prepare_environment()
setup(
    cmdclass={"bdist_wheel": AnyPython},
    rust_extensions=[
        RustExtension(
            {"ktrial-agent": "ktrial._bin.ktrial-agent"},
            path="agent/Cargo.toml",
            binding=Binding.Exec,
            args=["--locked", "--config", "agent/.cargo/config.toml"],
            debug=False,
            rust_version=">=1.85",
        )
    ],
)
