# SPDX-License-Identifier: Apache-2.0
"""CPU targets of compilers and kernels."""
