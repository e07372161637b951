# SPDX-License-Identifier: Apache-2.0
"""The licences of everything that is linked into the agent, and the offer that static linking with glibc asks for."""

from __future__ import annotations

import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from release import CannotRelease

ARCHITECTURES = ("x86_64", "aarch64")
NAME = "LICENSES-agent.txt"
#: Licences that ask for no more than what the file of licences does: their text, and the names of the authors.
PERMITTED = frozenset({"0BSD", "Apache-2.0", "BSD-3-Clause", "MIT", "Unicode-3.0", "Zlib"})
_RULE = "=" * 100
_NAMES = ("license", "licence", "copying", "notice", "copyright", "unlicense")
#: What a compiler adds to a static program besides the crates.
_LIBRARIES = """\
The agent is one static program. Besides the crates below it holds parts of:

- Rust's standard library, Copyright The Rust Project Contributors: Apache-2.0 OR MIT. The text of
  Apache-2.0 is ktrial's own, LICENSE.
- libgcc's start files and unwinder, Copyright Free Software Foundation: GPL-3.0-or-later WITH
  GCC-exception-3.1. The exception allows programs under any licence to hold them.
- The GNU C Library (glibc), Copyright Free Software Foundation and others: LGPL-2.1-or-later, whose
  text ends this file.

An offer that goes with glibc (LGPL-2.1, section 6)
---------------------------------------------------

You may change glibc and link the agent with your glibc. All that this needs is here:

- The complete sources of the agent, with its build scripts, are in the source distribution of the
  same release, ktrial-VERSION.tar.gz, under Apache-2.0. `cargo build --release --locked` in its
  folder agent/ links them with the static glibc of your system (libc.a).
- The sources of the glibc that this agent was linked with are those of the Debian package named
  below, at https://snapshot.debian.org/. For three years from the day of a release, who holds a copy
  of the agent also gets them from the project for no more than the cost of sending them: ask as
  SECURITY.md and README.md say.
- Nothing forbids you to take the agent apart to find errors in such changes.

glibc: {glibc}
"""


@dataclass(frozen=True, order=True)
class Crate:
    """One crate of those that are linked into the agent."""

    name: str
    version: str
    licence: str
    checksum: str
    folder: Path

    def texts(self) -> list[tuple[str, str]]:
        """Return the name and the text of each licence file that the crate carries."""
        found = sorted(
            path for path in self.folder.iterdir() if path.is_file() and path.name.lower().startswith(_NAMES)
        )
        return [(path.name, path.read_text(encoding="utf-8", errors="replace").strip()) for path in found]


def crates(agent: Path, cargo: str = "cargo") -> list[Crate]:
    """Return the crates that the agent of either architecture is linked with, as cargo resolves its lock file."""
    checksums = _checksums(agent)
    found: set[Crate] = set()
    for architecture in ARCHITECTURES:
        metadata = _metadata(agent, cargo, f"{architecture}-unknown-linux-gnu")
        packages = {package["id"]: package for package in metadata["packages"]}
        for identity in _linked(metadata["resolve"]) - {metadata["resolve"]["root"]}:
            package = packages[identity]
            name, version = package["name"], package["version"]
            if not is_permitted(package["license"] or ""):
                raise CannotRelease(
                    f"cannot link {name} {version}: its licence is {package['license'] or 'not named'}",
                    hint="do without the crate, or add the licence to release/licences.py once its terms are met",
                )
            folder = Path(package["manifest_path"]).parent
            found.add(Crate(name, version, package["license"], checksums[name, version], folder))
    return sorted(found)


def is_permitted(expression: str) -> bool:
    """Return whether some choice that an SPDX expression leaves is permitted. A crate may still write / for OR."""
    parts = expression.replace("/", " OR ").split(" AND ")
    return all(any(one.strip("() ") in PERMITTED for one in part.split(" OR ")) for part in parts)


def _checksums(agent: Path) -> dict[tuple[str, str], str]:
    lock = tomllib.loads((agent / "Cargo.lock").read_text(encoding="utf-8"))
    return {(one["name"], one["version"]): one.get("checksum", "") for one in lock["package"]}


def _metadata(agent: Path, cargo: str, target: str) -> dict[str, Any]:
    command = [cargo, "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    done = subprocess.run(command, cwd=agent, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRelease(f"cannot resolve the agent's crates:\n{done.stderr.strip()}", hint="see cargo's message")
    resolved: dict[str, Any] = json.loads(done.stdout)
    return resolved


def _linked(resolve: dict[str, Any]) -> set[str]:
    """Return what is reached over normal dependencies: neither tests nor build scripts are linked."""
    nodes = {node["id"]: node for node in resolve["nodes"]}
    seen: set[str] = set()
    left = [resolve["root"]]
    while left:
        identity = left.pop()
        if identity in seen:
            continue
        seen.add(identity)
        for below in nodes[identity]["deps"]:
            if any(kind["kind"] is None for kind in below["dep_kinds"]):
                left.append(below["pkg"])
    return seen


def text(linked: list[Crate], glibc: str, lgpl: str) -> str:
    """Return the file of licences: what is linked, each text once with the crates that carry it."""
    carriers: dict[str, list[str]] = {}
    for crate in linked:
        for name, content in crate.texts():
            carriers.setdefault(content, []).append(f"{crate.name} {crate.version}: {name}")
    table = "".join(f"{crate.name} {crate.version}: {crate.licence}\n" for crate in linked)
    parts = ["Licences of what ktrial-agent holds", _LIBRARIES.format(glibc=glibc), "Crates\n------\n", table]
    for content, names in carriers.items():
        parts += [_RULE, "\n".join(names), _RULE, f"{content}\n"]
    parts += [_RULE, "glibc: GNU Lesser General Public License, version 2.1", _RULE, lgpl.strip()]
    return "\n".join(parts) + "\n"


def glibc_version() -> str:
    """Return the packages whose libc.a the agents are linked with here."""
    packages = ("libc6-dev", "libc6-dev-arm64-cross")
    words = ["dpkg-query", "--show", "--showformat=${Package} ${Version}\\n", *packages]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if not lines:
        raise CannotRelease(
            "cannot tell which glibc the agent is linked with: dpkg-query knows no libc6-dev",
            hint="make releases on Debian, as docs/releasing.md says",
        )
    return ", ".join(lines)
