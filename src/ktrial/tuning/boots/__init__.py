# SPDX-License-Identifier: Apache-2.0
"""One boot attempt: the entry beside the default one, what speaks against it, and what became of it."""
