# SPDX-License-Identifier: Apache-2.0
"""Builds the agent into the wheel, as `ktrial/_bin/ktrial-agent`. Everything else is in pyproject.toml.

Where `KTRIAL_AGENTS` names a folder, agents that were built before are taken from it instead, as a release does:
`ktrial-agent-ARCHITECTURE` for each architecture. `KTRIAL_ARCHITECTURE` says whose wheel it is.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools_rust import Binding, RustExtension

AGENTS = os.environ.get("KTRIAL_AGENTS")
ARCHITECTURE = os.environ.get("KTRIAL_ARCHITECTURE", "")


class AnyPython(bdist_wheel):
    """A wheel for one kind of machine and every Python 3: it holds a program, not an extension module."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, ABI and platform of the wheel. The agent is static: the oldest glibc that pip knows will do."""
        ours = f"manylinux_2_17_{ARCHITECTURE}.manylinux2014_{ARCHITECTURE}"
        return "py3", "none", ours if AGENTS else super().get_tag()[2]


class OfOneArchitecture(Distribution):
    """What holds programs, and so is installed where those of one architecture belong."""

    def has_ext_modules(self) -> bool:
        """Agents that were built before count as extensions."""
        return True


class WithAgents(build_py):
    """Python's part, and the agents that were built before: this architecture's under the plain name."""

    def run(self) -> None:
        """Copy all of it into the folder that becomes the wheel."""
        super().run()
        assert AGENTS is not None
        folder = Path(self.build_lib) / "ktrial" / "_bin"
        folder.mkdir(parents=True, exist_ok=True)
        for agent in sorted(Path(AGENTS).glob("ktrial-agent-*")):
            own = agent.name == f"ktrial-agent-{ARCHITECTURE}"
            copied = folder / ("ktrial-agent" if own else agent.name)
            shutil.copyfile(agent, copied)
            copied.chmod(0o755)
        if not (folder / "ktrial-agent").exists():
            raise SystemExit(f"{AGENTS} holds no ktrial-agent-{ARCHITECTURE}")


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


def agent_extension() -> RustExtension:
    return RustExtension(
        {"ktrial-agent": "ktrial._bin.ktrial-agent"},
        path="agent/Cargo.toml",
        binding=Binding.Exec,
        args=["--locked", "--config", "agent/.cargo/config.toml"],
        debug=False,
        rust_version=">=1.85",
    )


def main() -> None:
    commands: dict[str, Any] = {"bdist_wheel": AnyPython}
    if AGENTS:
        setup(cmdclass=commands | {"build_py": WithAgents}, distclass=OfOneArchitecture)
    else:
        prepare_environment()
        setup(cmdclass=commands, rust_extensions=[agent_extension()])


main()
