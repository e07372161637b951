# SPDX-License-Identifier: Apache-2.0
"""The root helper as the head sees it: its binary, its session, its clock."""
