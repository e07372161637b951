# SPDX-License-Identifier: Apache-2.0
"""Build a benchmark tool from source, on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ktrial.bench.availability import PACKAGE_PROGRAMS, install_command, package_tool
from ktrial.bench.tool import Receipt, Recipe, ToolSource, check_sha256
from ktrial.kit.errors import BadInput, KtrialError


class ToolBuilder(Protocol):
    """A private place to build in."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What the build's environment holds, but for the private folder."""

    def programs(self, names: Iterable[str]) -> Mapping[str, str | None]:
        """Return where each program is; None when it is not there."""

    def fetch(self, recipe: Recipe, place: str | None, accepted_sha256: str | None) -> ToolSource: ...

    def tree_sha256(self) -> str: ...

    def versions(self, compilers: Iterable[str]) -> Mapping[str, str]: ...

    def build(self, steps: Iterable[Sequence[str]]) -> None: ...

    def built(self, programs: Mapping[str, str]) -> dict[str, Path]: ...

    def sha256(self, path: Path) -> str: ...


class Toolbox(Protocol):
    """Where built tools are kept."""

    def install(self, receipt: Receipt, files: dict[str, Path]) -> Path:
        """Put a build in place of the tool's last one: its folder."""


def get_tool(
    recipe: Recipe,
    place: str | None,
    accepted_sha256: str | None,
    workshop: ToolBuilder,
    toolbox: Toolbox,
    unix_ms: Callable[[], int],
) -> tuple[Receipt, Path]:
    """Fetch, check, build and install: the receipt, and the build's folder."""
    if accepted_sha256 is not None:
        check_sha256(accepted_sha256, "--accept-sha256")
        if place is None:
            raise BadInput("--accept-sha256 is for an archive given with --from", hint="add --from ARCHIVE")
    _check_needs(recipe, workshop, ("git", *recipe.needs) if place is None else recipe.needs)
    source = workshop.fetch(recipe, place, accepted_sha256)
    if accepted_sha256 is not None and source.kind != "archive":
        raise BadInput("--accept-sha256 is for an archive, and this source is none")
    tree_sha256 = workshop.tree_sha256()
    if source.verified == "commit" and recipe.tree_sha256 not in {None, tree_sha256}:
        raise KtrialError(
            f"commit {recipe.commit} of {source.place} does not hold the files that it should: "
            f"their digest is {tree_sha256}, not {recipe.tree_sha256}",
            hint="nothing was built; this is a collision of SHA-1, or a wrong recipe",
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
            f"building {recipe.name} needs {', '.join(absent)}, not installed here",
            hint=command or f"install {', '.join(absent)}",
        )
