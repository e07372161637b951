# SPDX-License-Identifier: Apache-2.0
"""Sentences that people read have at most 25 words: in pages, help texts and docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ktrial.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 25
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
)
_END = re.compile(r"(?<=[.!?:;])[\"')\]*_]*\s+")


def long_sentences(paragraphs: Iterator[str]) -> list[str]:
    """Return the sentences that have too many words."""
    sentences = [one for text in paragraphs for one in _END.split(" ".join(text.split()))]
    return [one for one in sentences if len([word for word in one.split() if re.search(r"\w", word)]) > MOST_WORDS]


def page_paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs, list items and table cells of a page; code is no prose."""
    prose = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*#|]|\d+\.) ?)", prose):
        yield from paragraph.split("|") if paragraph.lstrip().startswith("|") else [paragraph]


def docstring_paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring, without trees and the examples of a command's help."""
    found = re.split(r"\n[^\S\n]*\n", text)
    return (one for one in found if not one.lstrip(" \n").startswith(("\b", "ktrial ")) and "├" not in one)


def help_paragraphs(command: click.Command) -> Iterator[str]:
    """Yield the paragraphs of a command's help and the texts of its options."""
    yield from docstring_paragraphs(command.help or "")
    yield from (option.help or "" for option in command.params if isinstance(option, click.Option))


def commands(command: click.Command, name: str = "ktrial") -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None
            yield from commands(inner, f"{name} {word}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_short_sentences(page: Path) -> None:
    assert long_sentences(page_paragraphs(page.read_text(encoding="utf-8"))) == []


def test_help_texts_have_short_sentences() -> None:
    found = {name: long_sentences(help_paragraphs(command)) for name, command in commands(cli)}
    assert len(found) > 100
    assert {name: one for name, one in found.items() if one} == {}


def test_docstrings_have_short_sentences() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src" / "ktrial").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if bad := long_sentences(docstring_paragraphs(text)):
                    found[f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"] = bad
    assert found == {}


def test_a_long_sentence_is_seen() -> None:
    long = " ".join(["word"] * 26)
    assert long_sentences(page_paragraphs(f"# Title\n\n- {long}.\n- Short.\n")) == [f"- {long}."]
    assert long_sentences(page_paragraphs(f"| a | {long} |\n")) == [long]
    assert long_sentences(page_paragraphs(f"```sh\n{long}\n```\n\nShort: {' '.join(['word'] * 24)}.\n")) == []
