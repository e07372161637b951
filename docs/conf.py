# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: `sphinx-build docs site`. It needs no network, to be built or to be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ktrial import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "ktrial"
author = "the authors of ktrial"
project_copyright = "the authors of ktrial, Apache-2.0"
version = release = __version__
extensions = ["myst_parser"]
#: Headings that can be linked to, as on a code hosting site.
myst_heading_anchors = 4
html_theme = "furo"
html_title = "ktrial"
html_show_sphinx = False
html_copy_source = False
#: Blocks of `console` are transcripts of several commands, which no highlighter reads whole.
suppress_warnings = ["misc.highlighting_failure"]
exclude_patterns = ["generate.py"]

#: What Sphinx and the theme leave out: wide listings must scroll by keyboard, and headings need a level.
_ADDED = {"<pre>": '<pre tabindex="0">', 'role="heading">': 'role="heading" aria-level="2">'}


def setup(app: Sphinx) -> None:
    app.connect("build-finished", _add_attributes)


def _add_attributes(app: Sphinx, error: Exception | None) -> None:
    if error is not None:
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for without, complete in _ADDED.items():
            text = text.replace(without, complete)
        page.write_text(text, encoding="utf-8")
