# SPDX-License-Identifier: Apache-2.0
"""Tools that were built from source, as text."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.bench.tool import Receipt, Recipe
from ktrial.kit.tables import paragraph, table

_VERIFIED = {
    "commit": "its content is the pinned commit's",
    "sha256": "its SHA-256 is the one that was expected",
    "no": "UNVERIFIED: nothing says what it should hold",
}


_CHECKED = {"commit": "commit", "sha256": "SHA-256", "no": "UNVERIFIED"}
_BROKEN = "BROKEN"
_FOOTNOTES = {
    "UNVERIFIED": "nothing says what the source should hold. Where nothing is built: its files were never fetched and "
    "written down for this recipe, and its commit alone is pinned.",
    _BROKEN: "what was built cannot be told; `ktrial tools get NAME` builds it anew.",
}


def list_text(
    recipes: Mapping[str, Recipe], receipts: Mapping[str, Receipt], broken: Mapping[str, str], *, width: int
) -> str:
    """All tools, what is there of each, where from, and how far its source is known; `broken` says why of a receipt."""
    rows = []
    for name in dict.fromkeys((*recipes, *receipts, *broken)):
        recipe, receipt = recipes.get(name), receipts.get(name)
        place = receipt.source.place if receipt is not None else recipe.upstream if recipe is not None else "-"
        licence = receipt.licence if receipt is not None else recipe.licence if recipe is not None else "-"
        here = receipt.version() if receipt is not None else _BROKEN if name in broken else "not built"
        rows.append((name, here, _checked(recipe, receipt), place, licence))
    shown = {word for row in rows for word in row}
    notes = [f"{word}: {text}" for word, text in _FOOTNOTES.items() if word in shown]
    told = "".join(paragraph(line, width=width) + "\n" for line in (*notes, *broken.values()))
    return table(("tool", "here", "checked by", "from", "licence"), rows, width=width) + "\n" + told


def _checked(recipe: Recipe | None, receipt: Receipt | None) -> str:
    """Return how far the content of a source is known: of the build, or of what the recipe would build."""
    if receipt is not None:
        return _CHECKED[receipt.source.verified]
    return "commit" if recipe is not None and recipe.tree_sha256 is not None else "UNVERIFIED"


def built_text(receipt: Receipt, folder: str, *, width: int) -> str:
    """Return what was built, from what, and where it lies."""
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
