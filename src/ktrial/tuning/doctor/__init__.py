# SPDX-License-Identifier: Apache-2.0
"""What `ktrial doctor` examines."""
