# SPDX-License-Identifier: Apache-2.0
"""The generated reference pages are those of the present catalog and commands."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_reference_pages_are_fresh() -> None:
    specification = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert specification is not None
    assert specification.loader is not None
    generate = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(generate)
    pages = generate.pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "reference").iterdir()}
    stale = sorted(name for name in pages.keys() | there.keys() if pages.get(name) != there.get(name))
    assert stale == [], "make them anew with  .venv/bin/python docs/generate.py"
    assert len(pages) > 20
