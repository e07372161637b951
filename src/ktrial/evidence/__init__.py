# SPDX-License-Identifier: Apache-2.0
"""Packs evidence into bundles, unpacks them and rechecks them."""
