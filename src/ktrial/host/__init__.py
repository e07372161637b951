# SPDX-License-Identifier: Apache-2.0
"""The machine under test: agent sessions, privilege, user folders."""
