# SPDX-License-Identifier: Apache-2.0
"""The demo of `ktrial demo`: a short trial of settings whose effects are known."""
