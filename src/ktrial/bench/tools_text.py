# SPDX-License-Identifier: Apache-2.0
"""Tables about tools that ktrial builds from source."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.bench.tool import Receipt, Recipe
from ktrial.kit.tables import paragraph, table

_VERIFIED = {
    "commit": "it is the pinned commit",
    "sha256": "it has the expected SHA-256",
    "no": "UNVERIFIED: there is no digest to compare with",
}
_CHECKED = {"commit": "commit", "sha256": "SHA-256", "no": "UNVERIFIED"}
_BROKEN = "BROKEN"
_FOOTNOTES = {
    "UNVERIFIED": "there is no digest to compare the source with. The recipe of a tool that is not built pins a "
    "commit, but nobody has recorded the digest of that commit's files.",
    _BROKEN: "the receipt cannot be read; rebuild the tool with `ktrial tools get NAME`.",
}


def list_text(
    recipes: Mapping[str, Recipe], receipts: Mapping[str, Receipt], broken: Mapping[str, str], *, width: int
) -> str:
    """Return a table of all tools; `broken` holds the error of each unreadable receipt."""
    rows = []
    for name in dict.fromkeys((*recipes, *receipts, *broken)):
        recipe, receipt = recipes.get(name), receipts.get(name)
        place = receipt.source.place if receipt is not None else recipe.upstream if recipe is not None else "-"
        licence = receipt.licence if receipt is not None else recipe.licence if recipe is not None else "-"
        here = receipt.version() if receipt is not None else _BROKEN if name in broken else "not built"
        rows.append((name, here, _checked(recipe, receipt), place, licence))
    shown = {word for row in rows for word in row}
    notes = [f"{word}: {text}" for word, text in _FOOTNOTES.items() if word in shown]
    listed = "".join(paragraph(line, width=width) + "\n" for line in (*notes, *broken.values()))
    return table(("tool", "here", "checked by", "from", "licence"), rows, width=width) + "\n" + listed


def _checked(recipe: Recipe | None, receipt: Receipt | None) -> str:
    """Return how the source of the build was verified, or how the recipe's would be."""
    if receipt is not None:
        return _CHECKED[receipt.source.verified]
    return "commit" if recipe is not None and recipe.tree_sha256 is not None else "UNVERIFIED"


def built_text(receipt: Receipt, folder: str, *, width: int) -> str:
    source = receipt.source
    compilers = ", ".join(receipt.compilers.values())
    lines = [
        f"{receipt.name}: {receipt.version()}",
        f"source: {source.place}; {_VERIFIED[source.verified]}",
        f"source digest: {receipt.tree_sha256}",
        f"built by: {compilers}" if compilers else "",
    ]
    text = "".join(paragraph(line, width=width) + "\n" for line in lines if line)
    return text + "".join(f"program: {folder}/bin/{name}\n" for name in receipt.programs)
