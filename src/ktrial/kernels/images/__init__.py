# SPDX-License-Identifier: Apache-2.0
"""Reading kernel images, modules and packages."""
