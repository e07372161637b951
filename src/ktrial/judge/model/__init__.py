# SPDX-License-Identifier: Apache-2.0
"""The input and the answers of the judge."""
