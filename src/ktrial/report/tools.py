# SPDX-License-Identifier: Apache-2.0
"""Tools that were built from source, as text."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.domain.tool import Receipt, Recipe
from ktrial.report.terminal import paragraph, table

_VERIFIED = {
    "commit": "its content is the pinned commit's",
    "sha256": "its SHA-256 is the one that was expected",
    "no": "UNVERIFIED: nothing says what it should hold",
}


def list_text(recipes: Mapping[str, Recipe], receipts: Mapping[str, Receipt], *, width: int) -> str:
    """All tools, what is there of each, and where from."""
    rows = []
    for name, recipe in recipes.items():
        receipt = receipts.get(name)
        here = receipt.version() if receipt is not None else "not built"
        rows.append((name, here, receipt.source.place if receipt is not None else recipe.upstream, recipe.licence))
    return table(("tool", "here", "from", "licence"), rows, width=width) + "\n"


def built_text(receipt: Receipt, folder: str, *, width: int) -> str:
    """What was built, from what, and where it lies."""
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
