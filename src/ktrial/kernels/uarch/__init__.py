# SPDX-License-Identifier: Apache-2.0
"""The CPUs that compilers and kernels can target."""
