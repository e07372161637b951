# SPDX-License-Identifier: Apache-2.0
"""Parts of the HTML page of a report."""
