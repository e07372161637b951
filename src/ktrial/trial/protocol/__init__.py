# SPDX-License-Identifier: Apache-2.0
"""What a trial will do, decided before its first run."""
