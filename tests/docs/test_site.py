# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: every link leads somewhere, every page can be found, nothing comes from the network."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("site")  # built once

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: Pages begin with what their reader wants; these are lists.
LISTS = {"index", "decisions/index"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-I", "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--nitpicky"]
    built = subprocess.run([*command, DOCS, folder], capture_output=True, text=True, check=False, timeout=250)
    assert (built.returncode, built.stderr) == (0, "")
    return folder


class Loaded(HTMLParser):
    """What a page loads when it is opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = {"script": "src", "img": "src", "link": "href", "iframe": "src"}.get(tag)
        self.addresses += [value for key, value in attrs if key == name and value is not None]


def pages() -> list[str]:
    return sorted(str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md"))


def test_every_page_is_there_and_can_be_searched(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for name in pages():
        assert (site / f"{name}.html").is_file(), name
        assert f'"{name}"' in index, name


def test_nothing_comes_from_the_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        for address in Loaded(path.read_text(encoding="utf-8")).addresses:
            assert not re.match(r"[a-z]+:(?!image/)|//", address), f"{path.name}: {address}"
            assert address.startswith("data:") or (path.parent / address.partition("?")[0]).exists() or address == "#"


@pytest.mark.parametrize("name", [one for one in pages() if one not in LISTS and "/" not in one])
def test_a_page_begins_with_a_title_and_a_paragraph(name: str) -> None:
    title, blank, first = (DOCS / f"{name}.md").read_text(encoding="utf-8").split("\n")[:3]
    assert title.startswith("# ")
    assert blank == ""
    assert first
    assert not first.startswith(("```", "|", "#", "- ", "!")), first
