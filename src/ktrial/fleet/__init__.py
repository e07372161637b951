# SPDX-License-Identifier: Apache-2.0
"""One trial over many machines: who is measured when, what stops it, and what it says about machines like them."""
