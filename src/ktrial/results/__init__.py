# SPDX-License-Identifier: Apache-2.0
"""The store of runs, and importers and exporters for results of other programs."""
