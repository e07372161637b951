# SPDX-License-Identifier: Apache-2.0
"""The server of `ktrial mcp`: tools for agents. Each tool runs one command line of ktrial."""
