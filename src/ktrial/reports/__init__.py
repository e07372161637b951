# SPDX-License-Identifier: Apache-2.0
"""Reports as HTML pages, terminal tables, Markdown and JUnit."""
