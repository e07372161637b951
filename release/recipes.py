# SPDX-License-Identifier: Apache-2.0
"""The recipes of distributions that pack the archives of a release: their version, sums and day are filled in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from release import CannotRelease

RECIPES = ("arch/PKGBUILD", "fedora/ktrial.spec")


def fill(recipe: str, version: str, dated: int, sums: Mapping[str, str]) -> str:
    """Return a recipe with its fields filled in; `sums` are those of the archives, by architecture."""
    fields = {
        "VERSION": version,
        "DAY": datetime.fromtimestamp(dated, tz=UTC).strftime("%a %b %d %Y"),
        **{f"SHA256_{architecture}": one for architecture, one in sums.items()},
    }
    for name, value in fields.items():
        recipe = recipe.replace(f"@{name}@", value)
    if left := re.search(r"@[A-Za-z0-9_]+@", recipe):
        raise CannotRelease(f"a recipe has the field {left[0]}, which is unknown", hint="correct it in packaging/")
    return recipe


def write_recipes(packaging: Path, archives: Mapping[str, Path], version: str, dated: int, output: Path) -> None:
    """Write the recipes beside the archives that they pack."""
    sums = {name: hashlib.sha256(archive.read_bytes()).hexdigest() for name, archive in archives.items()}
    for name in RECIPES:
        place = output / Path(name).name
        text = (packaging / name).read_text(encoding="utf-8")
        place.write_text(fill(text, version, dated, sums), encoding="utf-8")
