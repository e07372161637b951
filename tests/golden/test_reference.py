# SPDX-License-Identifier: Apache-2.0
"""The generated reference pages and the agent's list of paths are those of the present catalog and commands."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.knobs.allowed_paths import allowed_paths

DOCS = Path(__file__).resolve().parents[2] / "docs"


def generator() -> ModuleType:
    specification = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert specification is not None
    assert specification.loader is not None
    generate = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(generate)
    return generate


def test_reference_pages_are_fresh() -> None:
    pages = generator().pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "reference").iterdir()}
    stale = sorted(name for name in pages.keys() | there.keys() if pages.get(name) != there.get(name))
    assert stale == [], "make them anew with  .venv/bin/python docs/generate.py"
    assert len(pages) > 20


def test_the_agent_has_the_paths_of_the_present_catalog() -> None:
    generate = generator()
    fresh = allowed_paths(load_catalog().knobs.values())
    assert generate.ALLOWED.read_text(encoding="utf-8") == fresh, "make it anew with  .venv/bin/python docs/generate.py"
