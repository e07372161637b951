# SPDX-License-Identifier: Apache-2.0
"""Recording of a machine at work, and diagnosis of its stutters."""
