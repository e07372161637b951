# SPDX-License-Identifier: Apache-2.0
"""Tokens, arguments and answers of `ktrial mcp` without a server."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from ktrial.cli.mcp.arguments import CLAIM, KNOB, SETTING, bounded, object_schema
from ktrial.cli.mcp.audit import AuditLog
from ktrial.cli.mcp.calls import Permissions, ToolAnswer, ToolCalls, _bounded_document
from ktrial.cli.mcp.child import CommandAnswer, Commands
from ktrial.cli.mcp.plan_tokens import PlanTokens, refuse_knobs
from ktrial.cli.mcp.tools import TOOLS
from ktrial.kit.errors import KtrialError, Refused
from tests.support.bench import FakeClock


def refused(tokens: PlanTokens, token: str, action: str = "apply", **arguments: object) -> str:
    with pytest.raises(Refused) as error:
        tokens.take(token, action, arguments)
    return error.value.message


def test_a_token_is_used_once_and_only_for_its_content() -> None:
    now = [0.0]
    tokens = PlanTokens(10.0, lambda: now[0])
    first = tokens.give("apply", {"settings": ("a=1",), "seconds": 5}, "as planned")
    assert tokens.take(first, "apply", {"seconds": 5, "settings": ("a=1",)}).basis == "as planned"
    assert refused(tokens, first, settings=("a=1",), seconds=5) == "this token is already used"
    other = tokens.give("apply", {"settings": ("a=1",)}, "")
    assert "belongs to another write" in refused(tokens, other, settings=("a=2",))
    assert "already used" in refused(tokens, other, settings=("a=1",))
    late = tokens.give("apply", {}, "")
    now[0] = 10.1
    assert "expired" in refused(tokens, late)
    assert "unknown here" in refused(tokens, "x" * 43)


def test_only_so_many_tokens_are_open() -> None:
    tokens = PlanTokens(10.0, lambda: 0.0)
    given = [tokens.give("apply", {}, "") for _ in range(65)]
    assert "expired" in refused(tokens, given[0])
    assert tokens.take(given[1], "apply", {}).basis == ""


@pytest.mark.parametrize(
    "knobs, allowed, said",
    [
        (["vm.swappiness"], ["vm.*"], None),
        (["queue:scheduler@sda"], ["queue:scheduler"], None),
        (["queue:scheduler@sda"], ["queue:scheduler@sd?"], None),
        (["queue:scheduler@nvme0n1"], ["queue:scheduler@sd?"], "agents may not write"),
        (["vm.swappiness", "kernel.panic"], ["vm.*"], "agents may not write kernel.panic here"),
        (["VM.swappiness"], ["vm.*"], "agents may not write"),
        (["boot:quiet"], ["*"], "takes effect at the next boot"),
        (["vm.swappiness", None], ["*"], "belongs to no knob"),
        ([], ["*"], "changes no value"),
        (["vm.swappiness"], [], "agents may not write"),
    ],
)
def test_knobs_must_fit_what_the_operator_allows(knobs: list[str | None], allowed: list[str], said: str | None) -> None:
    if said is None:
        refuse_knobs(knobs, allowed)
    else:
        with pytest.raises(Refused, match=said):
            refuse_knobs(knobs, allowed)


def test_no_tool_takes_a_word_that_could_be_an_option_or_a_path() -> None:
    for tool in TOOLS.values():
        schema = object_schema(tool.parameters)
        assert schema["additionalProperties"] is False
        for about in schema["properties"].values():
            word = about.get("items", about)
            if word["type"] == "string" and "enum" not in word and word["pattern"] != "^(?:[A-Za-z0-9_-]{43})$":
                assert word["pattern"].startswith(("^(?:[a-z]", "^(?:[A-Za-z]", "^(?:[A-Za-z0-9]", "^(?:[0-9]"))
    assert {KNOB.pattern, SETTING.pattern, CLAIM.pattern}


def test_a_long_document_loses_the_ends_of_its_lists() -> None:
    answer = _bounded_document({"schema": "x/1", "one": ["a" * 100] * 2000, "two": ["b"] * 3})
    assert isinstance(answer.document, dict)
    assert answer.document["two"] == ["b"] * 3
    assert len(answer.document["one"]) + answer.document["left_out"]["one"] == 2000
    assert json.loads(answer.text) == answer.document
    assert len(answer.text) < 50_000
    whole = _bounded_document({"text": "x" * 100_000})
    assert whole == ToolAnswer(whole.text)
    assert whole.text.endswith("more characters are left out")


class BigPlan:
    """Stands for the commands: every answer is a plan of so many steps."""

    def __init__(self, steps: int) -> None:
        step = {"knob": "vm.swappiness", "path": "/proc/sys/vm/swappiness", "new": "1\n", "expect": "60\n"}
        document = {"plan": {"steps": [step] * steps}, "refusals": [], "wrong": []}
        self._answer = CommandAnswer(0, json.dumps(document), "")

    async def run(self, words: Sequence[str], **_: object) -> CommandAnswer:
        return self._answer


def test_a_plan_that_cannot_be_shown_whole_gets_no_token(tmp_path: Path) -> None:
    def planned(steps: int) -> str:
        audit = AuditLog(tmp_path / "audit.jsonl", FakeClock())
        tokens = PlanTokens(10.0, lambda: 0.0)
        calls = ToolCalls(BigPlan(steps), audit, tokens, Permissions(True, ("*",), {}))  # type: ignore[arg-type]

        async def silent(done: int, most: int | None, message: str) -> None: ...

        asked = {"action": "apply", "settings": ["vm.swappiness=1"]}
        answer = anyio.run(calls.call, "plan", asked, None, silent)
        audit.close()
        return str(answer.text)

    assert '"no_token_because": null' in planned(3)
    long = planned(1000)
    assert '"token": null' in long
    assert "cannot show the whole plan" in long
    assert len(long) < 50_000


class HalfPlan(BigPlan):
    """Stands for the commands: `ktrial plan` can plan only some of the settings."""

    def __init__(self) -> None:
        super().__init__(1)
        wrong = {"word": "vm.nope=1", "error": "unknown knob: 'vm.nope'", "next": None}
        self._answer = CommandAnswer(2, json.dumps({"plan": {"steps": []}, "wrong": [wrong]}), "")


def test_an_answer_names_the_setting_that_cannot_be_planned(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl", FakeClock())
    tokens = PlanTokens(10.0, lambda: 0.0)
    calls = ToolCalls(HalfPlan(), audit, tokens, Permissions(True, ("*",), {}))  # type: ignore[arg-type]

    async def silent(done: int, most: int | None, message: str) -> None: ...

    asked = {"action": "apply", "settings": ["vm.swappiness=1", "vm.nope=1"]}
    answer = anyio.run(calls.call, "plan", asked, None, silent)
    audit.close()
    assert answer.text == "cannot plan vm.nope=1: unknown knob: 'vm.nope'\nnext: leave out vm.nope=1"


def test_what_the_log_holds_is_bounded_and_has_no_token() -> None:
    assert bounded({"token": "secret", "settings": ["a=1"]}) == {"token": "(given)", "settings": ["a=1"]}
    assert len(bounded({"settings": ["x" * 10_000_000]})) < 5000
    assert "ud800" in str(bounded({"settings": ["\ud800"]}))


def test_a_torn_line_of_the_log_does_not_swallow_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "mcp/audit.jsonl", FakeClock())
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:20]))
    with pytest.raises(KtrialError, match="No space left"):
        log.call("apply", {}, None, writes=True)
    monkeypatch.setattr(os, "write", real)
    number = log.call("apply", {}, None, writes=True)
    log.outcome(number, "apply", "done")
    log.close()
    lines = (tmp_path / "mcp/audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines[1:]] == ["call", "outcome"]
    assert (tmp_path / "mcp/audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KtrialError, match=os.strerror(errno.ELOOP)):
        AuditLog(tmp_path / "audit.jsonl", FakeClock())
    assert not (tmp_path / "elsewhere").exists()


def test_a_command_that_writes_too_much_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktrial.cli.mcp.child._MOST_BYTES", 10_000)
    heard: list[int] = []

    async def hear(line: bytes) -> None:
        heard.append(len(line))

    async def run(limit_s: float | None) -> CommandAnswer:
        commands = Commands((), tmp_path)
        commands._program = ("/bin/sh", "-c", 'for n in 1 2 3 4; do printf "%05000d\\n" 1; done; echo end >&2')
        return await commands.run((), limit_s=limit_s, heard=hear)

    with pytest.raises(KtrialError, match="too long"):
        anyio.run(run, 60.0)
    heard.clear()
    assert anyio.run(run, None) == CommandAnswer(0, "", "end\n")  # what was heard need not be kept
    assert heard == [5000] * 4
