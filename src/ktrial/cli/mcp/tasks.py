# SPDX-License-Identifier: Apache-2.0
"""Long calls as tasks of the extension `io.modelcontextprotocol/tasks` in the specification of 2026-07-28."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.abc
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver.server import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, RequestParams

from ktrial.kit.errors import KtrialError
from ktrial.machine.ports import Clock

EXTENSION = "io.modelcontextprotocol/tasks"
_POLL_MS = 1000
_LIFE_MS = 24 * 3600 * 1000
#: Number of tasks in memory; beyond it the oldest finished one is removed.
_MOST = 64


class TaskParams(RequestParams):
    """The parameters of a request about one task."""

    task_id: str


class UpdateParams(TaskParams):
    """Answers to a task's questions; ktrial's tasks ask no questions."""

    input_responses: dict[str, Any]


class LongCall:
    """One task: its state as the client sees it, and how to stop it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.name = secrets.token_urlsafe(24)
        self.status = "working"
        self.message = "begins"
        self.result: dict[str, Any] | None = None
        self.scope = anyio.CancelScope()
        self.created = self.updated = self._now()

    async def progress(self, done: int, most: int | None, message: str) -> None:
        """Store `message` as the state of the task."""
        self.message, self.updated = message, self._now()

    def end(self, status: str, message: str, result: dict[str, Any] | None = None) -> None:
        """Store how the task ended."""
        self.status, self.message, self.result, self.updated = status, message, result, self._now()

    def document(self, result_type: str) -> dict[str, Any]:
        """Return the task in the form that MCP specifies."""
        about = {
            "resultType": result_type,
            "taskId": self.name,
            "status": self.status,
            "statusMessage": self.message,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            "ttlMs": _LIFE_MS,
            "pollIntervalMs": _POLL_MS,
        }
        return about if self.result is None else {**about, "result": self.result}

    def _now(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.unix_ms() // 1000))


class LongCalls:
    """The tasks of one session."""

    def __init__(self, group: anyio.abc.TaskGroup, clock: Clock) -> None:
        self._group = group
        self._clock = clock
        self._tasks: dict[str, LongCall] = {}

    def start(self, work: Callable[[LongCall], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Start a task, and return its document. Raise KtrialError if too many tasks are under way."""
        for name in [name for name, one in self._tasks.items() if one.status != "working"]:
            if len(self._tasks) >= _MOST:
                del self._tasks[name]
        if len(self._tasks) >= _MOST:
            raise KtrialError("too many tasks are under way", hint="cancel a task, or wait until one ends")
        task = LongCall(self._clock)
        self._tasks[task.name] = task
        self._group.start_soon(self._carry_out, task, work)
        return task.document("task")

    async def get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        """Answer `tasks/get`."""
        return self._task(ctx, params).document("complete")

    async def update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> dict[str, Any]:
        """Answer `tasks/update`; ktrial ignores the content, because no task asks anything."""
        self._task(ctx, params)
        return {"resultType": "complete"}

    async def cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        """Answer `tasks/cancel`: interrupt the command, which restores everything."""
        task = self._task(ctx, params)
        if task.status == "working":
            task.scope.cancel()
        return {"resultType": "complete"}

    def _task(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> LongCall:
        require_client_extension(ctx, EXTENSION)
        task = self._tasks.get(params.task_id)
        if task is None:
            raise MCPError(code=INVALID_PARAMS, message=f"no such task: {ascii(params.task_id)[:80]}")
        return task

    async def _carry_out(self, task: LongCall, work: Callable[[LongCall], Awaitable[dict[str, Any]]]) -> None:
        with task.scope:
            result = await work(task)
            task.end("completed", "failed" if result.get("isError") else "done", result)
        if task.status == "working":
            task.end("cancelled", "cancelled; everything is restored")
