# SPDX-License-Identifier: Apache-2.0
"""Packs evidence into bundles, unpacks bundles and rechecks them."""
