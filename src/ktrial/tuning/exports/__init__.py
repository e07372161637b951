# SPDX-License-Identifier: Apache-2.0
"""Settings that are meant to outlast a boot, as exporters write them."""
