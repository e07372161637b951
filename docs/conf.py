# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: `sphinx-build docs site`. It needs no network, to be built or to be read."""

from __future__ import annotations

from ktrial import __version__

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
