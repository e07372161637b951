# SPDX-License-Identifier: Apache-2.0
"""Make settings last across boots, in the system's own configuration files."""
