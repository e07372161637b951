# SPDX-License-Identifier: Apache-2.0
"""The Python head's side of the agent, a Rust program: find the agent, start it, and talk to it."""
