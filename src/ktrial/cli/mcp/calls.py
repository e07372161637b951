# SPDX-License-Identifier: Apache-2.0
"""Carries out calls of tools: checks the arguments, writes the audit log, takes tokens, and runs the command."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from ktrial.cli.mcp.arguments import bounded, checked
from ktrial.cli.mcp.audit import AuditLog
from ktrial.cli.mcp.child import CommandAnswer, Commands
from ktrial.cli.mcp.plan_tokens import PlanTokens, refuse_knobs
from ktrial.cli.mcp.tools import ACTION_PARAMETERS, PLAN, TOOLS, AgentTool, Arguments, basis_argv
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, Busy, KtrialError, PrivilegeMissing, Refused, UnknownName
from ktrial.kit.files import read_file
from ktrial.kit.plain_text import plain

_READ_LIMIT_S = 180.0
_WRITE_LIMIT_S = 600.0
_MOST_TEXT = 48 << 10
_MOST_PROTOCOL_BYTES = 1 << 20
#: Exit statuses of commands that gave an answer: success, and a verdict that tripped a guard.
_ANSWERS = frozenset((0, 3))
#: States of transactions that a revert can undo.
_OPEN_STATES = frozenset(("applied", "unfinished"))

#: Programs that may start the agent as root.
_ASKERS = frozenset(("sudo", "doas", "pkexec"))
_NO_PASSWORD = "let sudo start ktrial-agent without a password (docs/agents.md), or run the command in a terminal"

Progress = Callable[[int, int | None, str], Awaitable[None]]


class CallFailed(KtrialError):
    """The error with which a command ended."""

    def __init__(self, message: str, status: int, *, hint: str | None) -> None:
        super().__init__(message, hint=hint)
        self.exit_status = status


class ToolAnswer(NamedTuple):
    """A tool's answer as text, and as a document if it is short enough."""

    text: str
    document: dict[str, Any] | None = None
    is_error: bool = False


class Permissions(NamedTuple):
    """What the operator allows: any writes, knobs by pattern, protocols by name, and live trials with their options."""

    writes: bool
    knobs: tuple[str, ...]
    protocols: Mapping[str, Path]
    live: tuple[str, ...] = ()


class ToolCalls:
    """Carries out the calls of one session."""

    def __init__(self, commands: Commands, audit: AuditLog, tokens: PlanTokens, allowed: Permissions) -> None:
        self._commands = commands
        self._audit = audit
        self._tokens = tokens
        self._allowed = allowed
        self._writing = anyio.Lock()

    async def call(self, name: str, given: Mapping[str, Any], client: str | None, progress: Progress) -> ToolAnswer:
        """Carry out a call. Return a failure as an answer too."""
        tool = TOOLS.get(name)
        shown = name if tool is not None else ascii(name)[:80]
        try:
            number = self._audit.call(shown, bounded(dict(given)), client, writes=tool is not None and tool.writes)
        except KtrialError as error:
            return _error(error)
        message: str | None = None
        outcome = "cancelled"
        try:
            if tool is None:
                raise UnknownName("tool", shown, TOOLS, hint="call tools/list")
            answer = await self._carry_out(tool, checked(tool.parameters, given), progress)
            outcome = "done"
        except KtrialError as error:
            answer, outcome, message = _error(error), "error", error.message
        finally:
            untold = self._end(number, shown, outcome, message)
        return answer if untold is None else untold

    def _end(self, number: str, tool: str, outcome: str, message: str | None) -> ToolAnswer | None:
        """Record how a call ended. If that fails, return an error as the answer; otherwise None."""
        try:
            self._audit.outcome(number, tool, outcome, message=message)
        except KtrialError as error:
            return _error(
                KtrialError(
                    f"{tool} has ended ({outcome}), but ktrial {error.message}",
                    hint="tell the operator about this error",
                )
            )
        return None

    async def _carry_out(self, tool: AgentTool, arguments: dict[str, Any], progress: Progress) -> ToolAnswer:
        if tool.name == PLAN.name:
            return await self._plan(arguments)
        if tool.writes:
            return await self._write(tool, arguments, progress)
        if tool.is_file:
            return await self._file(tool, arguments)
        answer = await self._commands.run(tool.argv(arguments), limit_s=_READ_LIMIT_S)
        if tool.without_root and answer.status == PrivilegeMissing.exit_status:
            answer = await self._commands.run(tool.without_root, limit_s=_READ_LIMIT_S)
        return _bounded(_require_answer(answer))

    async def _file(self, tool: AgentTool, arguments: Arguments) -> ToolAnswer:
        with tempfile.TemporaryDirectory(prefix="answer-", dir=self._commands.folder.parent) as folder:
            file = Path(folder) / "answer.md"
            _require_answer(await self._commands.run([*tool.argv(arguments), str(file)], limit_s=_READ_LIMIT_S))
            return _bounded_text(file.read_text(errors="replace"))

    async def _plan(self, arguments: dict[str, Any]) -> ToolAnswer:
        action = arguments.pop("action")
        arguments = checked(ACTION_PARAMETERS[action], _as_given(arguments))
        basis = await self._basis(action, arguments)
        token, refusal = None, None
        try:
            self._refuse(action, basis)
            if _is_too_long(plain_json.document(basis.document).decode()):
                raise Refused("cannot show the whole plan, because it is too long", hint="plan fewer settings")
            token = self._tokens.give(action, arguments, basis.digest)
        except Refused as error:
            refusal = error.message if error.hint is None else f"{error.message}; {error.hint}"
        document = {
            "action": action,
            "arguments": arguments,
            "token": token,
            "token_ends_in_s": None if token is None else self._tokens.life_s,
            "no_token_because": refusal,
            "plan": basis.document,
        }
        return _bounded_document(document)

    def _refuse(self, action: str, basis: Basis) -> None:
        """Raise Refused unless the operator allows this write."""
        if not self._allowed.writes:
            raise Refused("writes are not allowed", hint="ask the operator to start ktrial mcp with --allow-writes")
        if basis.skipped and action in {"try", "live", "trial_run", "keep"}:
            raise Refused(f"cannot set {basis.skipped[0]}: the plan skips it", hint=f"leave out {basis.skipped[0]}")
        if action == "live" and not self._allowed.live:
            raise Refused("live trials are not allowed", hint="ask the operator to start ktrial mcp with --live")
        refuse_knobs(basis.knobs, self._allowed.knobs)

    async def _write(self, tool: AgentTool, arguments: dict[str, Any], progress: Progress) -> ToolAnswer:
        token = arguments.pop("token")
        if not self._allowed.writes:
            raise Refused("writes are not allowed", hint="ask the operator to start ktrial mcp with --allow-writes")
        planned = self._tokens.take(token, tool.name, arguments)
        try:
            self._writing.acquire_nowait()
        except anyio.WouldBlock:
            raise Busy("busy", "another write is under way", hint="call plan again when that write has ended") from None
        try:
            basis = await self._basis(tool.name, arguments)
            self._refuse(tool.name, basis)
            if basis.digest != planned.basis:
                raise Refused("the machine has changed since this write was planned", hint="call plan again")
            words = tool.argv(arguments)
            if not tool.is_long:
                return _bounded(_require_answer(await self._commands.run(words, limit_s=_WRITE_LIMIT_S)))
            return await self._trial([*words, *self._operator_words(tool.name, arguments)], progress)
        finally:
            self._writing.release()

    def _operator_words(self, action: str, arguments: Arguments) -> list[str]:
        """Return the words of a long command that the operator chose, not the agent."""
        if action == "trial_run":
            return [str(self._protocol(arguments))]
        profiles = [one for one in arguments["settings"] if "=" not in one]
        return [*self._allowed.live, "--", *profiles] if action == "live" else []

    def _protocol(self, arguments: Arguments) -> Path:
        name, offered = arguments["protocol"], self._allowed.protocols
        path = offered.get(name)
        if path is None:
            raise UnknownName(
                "protocol", name, offered, hint="ask the operator to start ktrial mcp with --protocol FILE"
            )
        return path

    async def _basis(self, action: str, arguments: Arguments) -> Basis:
        """Return what an action would do now. Write nothing."""
        if action == "trial_run":
            data = read_file(self._protocol(arguments), _MOST_PROTOCOL_BYTES)
            settings = settings_of_protocol(data, arguments["protocol"])
            words = basis_argv(action, {"settings": settings})
            planned = _require_answer(await self._commands.run(words, limit_s=_READ_LIMIT_S))
            return basis_of(action, planned.json, {}, hashlib.sha256(data).hexdigest())
        TOOLS[action].argv(arguments)  # raises for arguments that cannot become a command line
        answer = _require_answer(await self._commands.run(basis_argv(action, arguments), limit_s=_READ_LIMIT_S))
        return basis_of(action, answer.json, arguments, "")

    async def _trial(self, words: Sequence[str], progress: Progress) -> ToolAnswer:
        heard = TrialHeard(progress)
        ended = await self._commands.run(words, limit_s=None, heard=heard)
        if ended.status not in _ANSWERS or heard.trial is None:
            raise _failure(ended)
        shown = _require_answer(await self._commands.run(["trial", "show", heard.trial], limit_s=_READ_LIMIT_S))
        document = {"trial": heard.trial, "verdicts": heard.verdicts, "summary": _shorten(shown.out)}
        return _bounded_document(document)


class TrialHeard:
    """Reads the events of a trial from a command's JSON lines."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._cap: int | None = None
        self.trial: str | None = None
        self.verdicts: list[dict[str, Any]] = []

    async def __call__(self, line: bytes) -> None:
        try:
            event = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return
        kind = event.get("event") if isinstance(event, dict) else None
        if kind == "trial-announced":
            self._cap = event["protocol"]["cap"]
        elif kind in {"block-ended", "trial-ended"}:
            judgement = event["judgement"]
            self._cap = judgement["cap"] or self._cap
            if kind == "trial-ended":
                self.trial = event["trial"]
                self.verdicts = [one for one in judgement["judged"] if one["role"] != "exploratory"]
            cap = "" if self._cap is None else f" of at most {self._cap}"
            await self._progress(judgement["blocks"], self._cap, f"{judgement['blocks']}{cap} blocks")


class Basis(NamedTuple):
    """What an action would do: its knobs (None for a step without a knob), what it skips, and a digest of the whole."""

    document: Any
    knobs: tuple[str | None, ...]
    skipped: tuple[str, ...]
    digest: str


def basis_of(action: str, document: Any, arguments: Arguments, more: str) -> Basis:
    """Return what an action would do. `document` is the JSON of the read-only command that shows it.

    The digest also covers the text `more`. Raise BadInput if the transaction to revert is not in force.
    """
    if action == "revert":
        number = arguments["transaction"]
        open_ones = {one["transaction"]: one for one in document["transactions"] if one["state"] in _OPEN_STATES}
        if number not in open_ones:
            raise BadInput(f"transaction {number} is not in force", hint="call status, which lists transactions")
        document = open_ones[number]
        steps, skipped = document["steps"], []
    else:
        steps = document["plan"]["steps"]
        skipped = [one.get("knob") or "a setting" for one in document.get("refusals", document.get("left_out", ()))]
    if action == "keep":
        knobs: list[str | None] = [one["address"] for one in document["settings"]]
    else:
        knobs = [one.get("knob") for one in steps]
    digest = hashlib.sha256(plain_json.line([action, document, more]).encode()).hexdigest()
    return Basis(document, tuple(dict.fromkeys(knobs)), tuple(skipped), digest)


def settings_of_protocol(data: bytes, name: str) -> tuple[str, ...]:
    """Return the settings and profiles of all arms of a protocol. Raise Refused for an arm of any other kind."""
    from ktrial.trial.protocol.file import ArmFile
    from ktrial.trial.protocol.read import parse_trial_file
    from ktrial.tuning.knobs.value import show_value

    file = parse_trial_file(data, name)
    words: list[str] = []
    for arm, about in file.arms.items():
        plain_arm = ArmFile(set=about.set, profile=about.profile)
        if about != plain_arm:
            raise Refused(f"arm {arm} of {name} changes more than settings", hint="ask the operator to run this trial")
        words += [f"{knob}={show_value(value)}" for knob, value in about.set.items()]
        words += [about.profile] if isinstance(about.profile, str) else about.profile or ()
    return tuple(dict.fromkeys(words))


def _as_given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in arguments.items()}


def _require_answer(answer: CommandAnswer) -> CommandAnswer:
    """Return a command's answer. If it is an error, raise CallFailed with the same message and hint."""
    if answer.status not in _ANSWERS:
        raise _failure(answer)
    return answer


def _failure(answer: CommandAnswer) -> CallFailed:
    told = answer.json
    if isinstance(told, dict) and told.get("wrong"):  # `ktrial plan`, if only some of the settings are wrong
        first = told["wrong"][0]
        hint = first["next"] or f"leave out {first['word']}"
        return CallFailed(f"cannot plan {first['word']}: {first['error']}", answer.status, hint=hint)
    if isinstance(told, dict) and told.get("schema") == "ktrial.error/1":
        if told.get("kind") == "privilege" and (why := _why_not_root(answer.err)) is not None:
            return CallFailed(f"{told['error']}: {why}", answer.status, hint=_NO_PASSWORD)
        return CallFailed(told["error"], answer.status, hint=told.get("next"))
    lines = [line for line in answer.err.splitlines() if line.strip()]
    message = next((line.removeprefix("ktrial: ") for line in reversed(lines) if line.startswith("ktrial: ")), None)
    hint = next((line.strip().removeprefix("next: ") for line in reversed(lines) if line.startswith("  next: ")), None)
    return CallFailed(message or f"the command ended with status {answer.status}", answer.status, hint=hint)


def _why_not_root(said: str) -> str | None:
    """Return the last words of the program that could not start the agent as root; None if it wrote nothing."""
    lines = (line.partition(": ") for line in reversed(said.splitlines()))
    return next((why for asker, colon, why in lines if colon and asker in _ASKERS), None)


def _error(error: KtrialError) -> ToolAnswer:
    message, hint = _shorten(plain(error.message)), None if error.hint is None else _shorten(plain(error.hint))
    text = message if hint is None else f"{message}\nnext: {hint}"
    return ToolAnswer(text, {"error": message, "next": hint, "status": error.exit_status}, is_error=True)


def _bounded(answer: CommandAnswer) -> ToolAnswer:
    document = answer.json
    if isinstance(document, dict):
        return _bounded_document(document)
    return _bounded_text(answer.out)


def _bounded_document(document: dict[str, Any]) -> ToolAnswer:
    """Return a document as an answer. If it is too long, shorten its longest lists, and count what is left out."""
    left_out: dict[str, int] = {}
    while _is_too_long(text := plain_json.document(document).decode()):
        lists = {name: one for name, one in document.items() if isinstance(one, list) and len(one) > 1}
        if not lists:
            return ToolAnswer(_shorten(text))
        name = max(lists, key=lambda one: len(plain_json.line(lists[one])))
        half = lists[name][: len(lists[name]) // 2]
        left_out[name] = left_out.get(name, 0) + len(lists[name]) - len(half)
        document = {**document, name: half, "left_out": left_out}
    return ToolAnswer(text, document)


def _is_too_long(text: str) -> bool:
    return len(text) > _MOST_TEXT


def _bounded_text(text: str) -> ToolAnswer:
    return ToolAnswer(_shorten(plain(text)))


def _shorten(text: str) -> str:
    """Return the text; if it is too long, return its beginning with a note."""
    left = len(text) - _MOST_TEXT
    return text if left <= 0 else f"{text[:_MOST_TEXT]}\n… {left} more characters are left out"
