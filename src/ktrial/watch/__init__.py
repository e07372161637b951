# SPDX-License-Identifier: Apache-2.0
"""Records a machine at work, and diagnoses its stutters."""
