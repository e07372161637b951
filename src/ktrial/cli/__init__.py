# SPDX-License-Identifier: Apache-2.0
"""One file per verb; the only place that prints."""
