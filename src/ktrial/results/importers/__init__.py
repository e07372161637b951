# SPDX-License-Identifier: Apache-2.0
"""Importers of foreign results: one module each, found by walking (see `registry`).

A module holds NAME, WHAT (one sentence), `sniff(head, name)` and `read(data, name, options)`; TAKES_COLUMNS where the
options of tables are its own, TAKES_FRAMES where those of frames are. Modules that begin with `_` hold what several
share.
"""
