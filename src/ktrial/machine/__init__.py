# SPDX-License-Identifier: Apache-2.0
"""The machine: its facts, sensors and gates, and what happens during a run."""
