# SPDX-License-Identifier: Apache-2.0
"""Reports as pages, tables, Markdown and JUnit."""
