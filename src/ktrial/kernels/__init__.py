# SPDX-License-Identifier: Apache-2.0
"""Kernels: sources, configurations, builds, images and identities."""
