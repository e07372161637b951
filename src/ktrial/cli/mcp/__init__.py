# SPDX-License-Identifier: Apache-2.0
"""The server of `ktrial mcp`: tools for agents, each of them one command line of ktrial."""
