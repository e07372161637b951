# SPDX-License-Identifier: Apache-2.0
"""Kernel images, modules and packages."""
