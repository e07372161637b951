# SPDX-License-Identifier: Apache-2.0
"""The arms of a trial: the configurations that it compares, and how ktrial applies them."""
