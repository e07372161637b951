# SPDX-License-Identifier: Apache-2.0
"""Make one run: on this machine, in a container or guest, or on another machine."""
