# SPDX-License-Identifier: Apache-2.0
"""Load the catalog of knobs and profiles."""
