# SPDX-License-Identifier: Apache-2.0
"""What ktrial prepares, checks and reads around each run."""
