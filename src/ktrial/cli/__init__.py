# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per verb. No other package prints."""
