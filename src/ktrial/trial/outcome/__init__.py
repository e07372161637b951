# SPDX-License-Identifier: Apache-2.0
"""Results of trials: comparisons, verdicts and their texts."""
