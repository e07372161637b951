# SPDX-License-Identifier: Apache-2.0
"""Benchmark tools that ktrial can build from source: recipes, and receipts of builds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput

#: How a source is verified: it is the pinned commit, it has the expected SHA-256, or not at all.
VerifiedTarget = Literal["commit", "sha256", "no"]
SourceKind = Literal["git", "archive", "folder"]

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHORT = 12


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to build a tool; `commit` pins the source in the git repository `upstream`.

    `tree_sha256` is the digest of that commit's files, if recorded. The build runs the argv lists in `steps` in the
    source's folder without a shell. `programs` are the paths where the build leaves each program. The build uses the
    programs in `needs`; the receipt records the versions of `compilers`. `packages` names the packages that contain
    the programs in `needs`, by package manager.
    """

    name: str
    what: str
    licence: str
    upstream: str
    commit: str
    steps: tuple[tuple[str, ...], ...]
    programs: Mapping[str, str]
    needs: tuple[str, ...]
    compilers: tuple[str, ...]
    packages: Mapping[str, str] = {}
    tree_sha256: str | None = None

    def check(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadInput(
                f"invalid tool name {self.name!r}",
                hint="use lower-case letters, digits and hyphens, beginning with a letter",
            )
        if not self.upstream.startswith("https://"):
            raise BadInput(f"upstream {self.upstream!r} is not an https address", hint="write https://…")
        if not _COMMIT.fullmatch(self.commit):
            raise BadInput(
                f"commit {self.commit!r} is not a full commit id of 40 hexadecimal digits",
                hint="write all 40 digits, as `git rev-parse` prints them",
            )
        if self.tree_sha256 is not None:
            check_sha256(self.tree_sha256, "tree_sha256")
        if not self.steps or not all(self.steps):
            raise BadInput(
                "steps: expected at least one command, and no empty command", hint='for example  steps = [["make"]]'
            )
        if not self.programs:
            raise BadInput(
                "programs: expected at least one program", hint='for example  programs = { schbench = "schbench" }'
            )
        for name, place in self.programs.items():
            if "/" in name or not name or place.startswith("/") or ".." in place.split("/"):
                raise BadInput(
                    f"program {name!r} = {place!r}: expected a bare name and a path below the source",
                    hint='for example  programs = { schbench = "schbench" }',
                )
        lacking = [name for name in self.compilers if name not in self.needs]
        if lacking:
            raise BadInput(f"compilers: {lacking[0]!r} is not in needs", hint=f"add {lacking[0]!r} to needs")


class ToolSource(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of the files for a build, and how ktrial verified them."""

    kind: SourceKind
    place: str
    verified: VerifiedTarget
    commit: str | None = None
    archive_sha256: str | None = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of a build, `ktrial.tool/1`: everything that its programs depend on.

    `tree_sha256` is the SHA-256 of all source files in the NAR serialisation. `compilers` holds the version line of
    each compiler, `programs` the SHA-256 of each program.
    """

    schema: Literal["ktrial.tool/1"] = "ktrial.tool/1"
    name: str
    source: ToolSource
    tree_sha256: str
    licence: str
    steps: tuple[tuple[str, ...], ...]
    environment: Mapping[str, str]
    compilers: Mapping[str, str]
    programs: Mapping[str, str]
    built_unix_ms: int

    @property
    def folder(self) -> str:
        commit = self.source.commit
        origin = commit[:_SHORT] if commit else f"tree-{self.tree_sha256[:_SHORT]}"
        return f"{origin}-{self.identity}"

    @property
    def identity(self) -> str:
        """Short digest of everything that the programs depend on, except the build folder."""
        parts = (self.tree_sha256, self.steps, self.environment, self.compilers)
        return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:_SHORT]

    def version(self, told: str | None = None) -> str:
        """Return the version for run records; `told` is the version that the tool prints, if any."""
        origin = f"commit {self.source.commit[:_SHORT]}" if self.source.commit else f"tree {self.tree_sha256[:_SHORT]}"
        return ", ".join(part for part in (told, origin, f"built {self.identity}") if part)


def check_sha256(text: str, what: str) -> None:
    """Raise BadInput unless `text` is a SHA-256 in lower-case hexadecimal digits."""
    if not _SHA256.fullmatch(text):
        raise BadInput(
            f"{what}: expected 64 lower-case hexadecimal digits, got {text!r}",
            hint="write the digest that `sha256sum FILE` prints",
        )
