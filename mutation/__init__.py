# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: small faults are planted in the code that must not fail, and the tests have to notice them."""
