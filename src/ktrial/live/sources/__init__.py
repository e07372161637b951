# SPDX-License-Identifier: Apache-2.0
"""Where numbers of live work come from, one module a kind."""
