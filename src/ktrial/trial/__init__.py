# SPDX-License-Identifier: Apache-2.0
"""Trials: from the question to the verdict."""
