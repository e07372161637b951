# SPDX-License-Identifier: Apache-2.0
"""A client of `ktrial mcp`: the official package's client, over stdin and stdout of a real server."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.extension import ClientExtension, advertise
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent

from tests.support.tree import FakeRoot

SUITE = """
name = "copies"
summary = "Copies memory for a moment."
[[benchmark]]
use = "agent-memcpy"
parameters = { duration_s = 0.05, bytes = 1048576 }
"""
TASKS = "io.modelcontextprotocol/tasks"
LIMIT_S = 280.0


def offer_suite(root: FakeRoot) -> None:
    """Let trials run on the fake machine, with a suite that takes no time."""
    root.write("/.ktrial-test-machine", "")
    folder = Path(os.environ["HOME"]) / ".config/ktrial/suites"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "copies.toml").write_text(SUITE)


def knows_tasks() -> ClientExtension:
    """Declare that the client knows tasks; tests read their handles themselves."""
    return advertise(TASKS)


def parameters(root: FakeRoot, options: Sequence[str]) -> StdioServerParameters:
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "PYTHONPATH") if name in os.environ}
    words = ["-m", "ktrial", "--machine-root", str(root.folder), "mcp", *options]
    return StdioServerParameters(command=sys.executable, args=words, env=kept)


@asynccontextmanager
async def session(
    root: FakeRoot, *options: str, extensions: Sequence[ClientExtension] = (), **more: Any
) -> AsyncIterator[Client]:
    """Yield a session with its own server, on the fake machine."""
    transport = stdio_client(parameters(root, options), sys.__stderr__ or sys.stderr)
    async with Client(transport, extensions=extensions or None, **more) as client:
        yield client


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run a session to its end, within a time limit."""

    async def limited() -> None:
        with anyio.fail_after(LIMIT_S):
            await work()

    anyio.run(limited)


def text_of(result: CallToolResult) -> str:
    """Return a tool's answer as text."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the document of an answer that is not an error."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refusal(client: Client, tool: str, arguments: Mapping[str, Any] | None) -> str:
    """Return the text of an answer that must be an error."""
    result = await client.call_tool(tool, None if arguments is None else dict(arguments))
    assert result.is_error, f"{tool} {arguments}: {text_of(result)[:300]}"
    return text_of(result)


async def token_for(client: Client, action: str, **arguments: Any) -> str:
    """Return the token of a plan."""
    planned = await told(client, "plan", action=action, **arguments)
    assert planned["token"], planned["no_token_because"]
    return str(planned["token"])
