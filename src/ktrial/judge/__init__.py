# SPDX-License-Identifier: Apache-2.0
"""The verdicts on trials, from their logs, and on data that no trial collected."""
