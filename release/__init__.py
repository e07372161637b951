# SPDX-License-Identifier: Apache-2.0
"""Builds what a release consists of; `setup/release` starts it, and docs/releasing.md says when."""
