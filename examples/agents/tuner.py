#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tuner whose proposals come from a language model, and whose judge is ktrial.

    tuner.py --suite memory-pressure --server "ktrial mcp --allow-writes --knob 'vm.*'" -- MODEL [ARGUMENT…]

MODEL is a program that you bring. Each round it gets on stdin what is known as JSON (suggestions of ktrial for this
machine, and all earlier proposals with their verdicts), and prints one proposal as JSON:

    {"settings": ["vm.swappiness=10"], "why": "…"}

It prints nothing when it is done. The tuner applies what a trial proves to be better, and nothing else. At the end
`ktrial revert --all` undoes everything.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import TextContent


class ToolError(Exception):
    """An error that a tool answered."""


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; return its document."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise ToolError(" ".join(part.text for part in result.content if isinstance(part, TextContent)))
    return result.structured_content or {}


async def write(client: Client, action: str, **arguments: Any) -> dict[str, Any]:
    """Plan a write, and carry out exactly that."""
    planned = await ask(client, "plan", action=action, **arguments)
    if planned["token"] is None:
        raise ToolError(planned["no_token_because"])
    return await ask(client, action, **arguments, token=planned["token"])


def propose(model: list[str], known: dict[str, Any]) -> dict[str, Any] | None:
    """Return the model's next proposal; None if it has none."""
    done = subprocess.run(model, input=json.dumps(known), capture_output=True, text=True, check=True)
    return json.loads(done.stdout) if done.stdout.strip() else None


async def one_round(client: Client, suite: str, blocks: int, settings: list[str]) -> str:
    """Put a proposal on trial, and apply it if it is proven; return what came of it."""
    try:
        found = await write(client, "try", settings=settings, suite=suite, blocks=blocks)
        verdict = next(one["verdict"] for one in found["verdicts"] if one["role"] == "primary")
        if verdict == "better":
            number = (await write(client, "apply", settings=settings))["transaction"]
            return f"better; applied as transaction {number}"
    except ToolError as error:
        return "refused: " + "; ".join(str(error).splitlines())
    return str(verdict)


async def tune(server: list[str], model: list[str], suite: str, blocks: int, rounds: int) -> None:
    """Ask, try, keep what is proven, and tell the model."""
    parameters = StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ))
    async with Client(stdio_client(parameters)) as client:
        known: dict[str, Any] = {"suggestions": await ask(client, "suggest"), "tried": []}
        for number in range(1, rounds + 1):
            proposal = propose(model, known)
            if proposal is None:
                break
            outcome = await one_round(client, suite, blocks, proposal["settings"])
            known["tried"].append({**proposal, "outcome": outcome})
            print(f"{number}: {' '.join(proposal['settings'])}: {outcome}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Tune by proposals of a model and verdicts of ktrial.")
    parser.add_argument("--server", default="ktrial mcp --allow-writes --knob 'vm.*'", help="command of the server")
    parser.add_argument("--suite", required=True, help="suite or benchmark that decides")
    parser.add_argument("--blocks", type=int, default=20, help="blocks of a trial, at most")
    parser.add_argument("--rounds", type=int, default=8, help="proposals, at most")
    parser.add_argument("model", nargs="+", help="program that proposes")
    given = parser.parse_args()
    anyio.run(tune, shlex.split(given.server), given.model, given.suite, given.blocks, given.rounds)


if __name__ == "__main__":
    main()
