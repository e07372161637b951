# SPDX-License-Identifier: Apache-2.0
"""What is compared, and how it is put in force."""
