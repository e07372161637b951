# SPDX-License-Identifier: Apache-2.0
"""The examination of a machine for `ktrial doctor`."""
