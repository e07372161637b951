# SPDX-License-Identifier: Apache-2.0
"""Load recipes of tools from `tools/*.toml`."""

from __future__ import annotations

from pathlib import Path

from ktrial.bench.tool import Recipe
from ktrial.kit.errors import BadInput
from ktrial.kit.toml_files import BUILT_IN, read_toml


def load_recipes(folder: Path = BUILT_IN) -> dict[str, Recipe]:
    recipes: dict[str, Recipe] = {}
    for path in sorted((folder / "tools").glob("*.toml")):
        recipe = read_toml(path, Recipe)
        try:
            recipe.check()
        except BadInput as error:
            raise BadInput(error.message, file=str(path), hint=error.hint) from None
        if recipe.name != path.stem:
            raise BadInput(
                f"name {recipe.name!r} differs from the file name {path.name}",
                file=str(path),
                hint="rename the file or the tool",
            )
        recipes[recipe.name] = recipe
    return recipes


def recipe_for(programs: list[str]) -> Recipe | None:
    return next((recipe for recipe in load_recipes().values() if set(programs) <= set(recipe.programs)), None)
