# SPDX-License-Identifier: Apache-2.0
"""The server of `ktrial mcp`: tools for agents, each of which runs one command line of ktrial."""
