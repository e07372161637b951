# SPDX-License-Identifier: Apache-2.0
"""Build a benchmark tool from source, on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ktrial.bench.availability import PACKAGE_PROGRAMS, install_command, package_tool
from ktrial.bench.tool import Receipt, Recipe, ToolSource, check_sha256
from ktrial.kit.errors import BadInput, KtrialError

_KINDS = {"git": "git repository"}


class ToolBuilder(Protocol):
    """Fetches and builds a tool in a private folder."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of a build, without variables whose values name the private folder."""

    def programs(self, names: Iterable[str]) -> Mapping[str, str | None]:
        """Return the path of each program; None for a missing program."""

    def fetch(self, recipe: Recipe, place: str | None, accepted_sha256: str | None) -> ToolSource: ...

    def tree_sha256(self) -> str: ...

    def versions(self, compilers: Iterable[str]) -> Mapping[str, str]: ...

    def build(self, steps: Iterable[Sequence[str]]) -> None: ...

    def built(self, programs: Mapping[str, str]) -> dict[str, Path]: ...

    def sha256(self, path: Path) -> str: ...


class Toolbox(Protocol):
    """Storage of built tools."""

    def install(self, receipt: Receipt, files: dict[str, Path]) -> Path:
        """Replace the previous build of the tool and return the folder of the new one."""


def get_tool(
    recipe: Recipe,
    place: str | None,
    accepted_sha256: str | None,
    workshop: ToolBuilder,
    toolbox: Toolbox,
    unix_ms: Callable[[], int],
) -> tuple[Receipt, Path]:
    """Fetch, verify, build and install a tool; return the receipt and the folder of the build."""
    if accepted_sha256 is not None:
        check_sha256(accepted_sha256, "--accept-sha256")
        if place is None:
            raise BadInput("--accept-sha256 needs an archive given with --from", hint="add --from ARCHIVE")
    _check_needs(recipe, workshop, ("git", *recipe.needs) if place is None else recipe.needs)
    source = workshop.fetch(recipe, place, accepted_sha256)
    if accepted_sha256 is not None and source.kind != "archive":
        raise BadInput(
            f"--accept-sha256 needs an archive, but {source.place} is a {_KINDS.get(source.kind, source.kind)}",
            hint="leave out --accept-sha256",
        )
    tree_sha256 = workshop.tree_sha256()
    if source.verified == "commit" and recipe.tree_sha256 not in {None, tree_sha256}:
        raise KtrialError(
            f"commit {recipe.commit} of {source.place} has unexpected files: expected digest "
            f"{recipe.tree_sha256}, got {tree_sha256}",
            hint="name another source of the tool with --from",
        )
    compilers = workshop.versions(recipe.compilers)
    workshop.build(recipe.steps)
    files = workshop.built(recipe.programs)
    receipt = Receipt(
        name=recipe.name,
        source=source,
        tree_sha256=tree_sha256,
        licence=recipe.licence,
        steps=recipe.steps,
        environment=workshop.environment,
        compilers=compilers,
        programs={name: workshop.sha256(path) for name, path in files.items()},
        built_unix_ms=unix_ms(),
    )
    return receipt, toolbox.install(receipt, files)


def _check_needs(recipe: Recipe, workshop: ToolBuilder, needs: Sequence[str]) -> None:
    found = workshop.programs([*needs, *PACKAGE_PROGRAMS])
    absent = [name for name in needs if found[name] is None]
    if absent:
        command = install_command(recipe.packages, package_tool(found))
        raise KtrialError(
            f"cannot build {recipe.name}: missing {', '.join(absent)}", hint=command or f"install {', '.join(absent)}"
        )
