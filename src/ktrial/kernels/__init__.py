# SPDX-License-Identifier: Apache-2.0
"""Kernels: their sources, configurations, builds, images and identities."""
