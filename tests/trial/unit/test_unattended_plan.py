# SPDX-License-Identifier: Apache-2.0
"""Plans that the agent carries out by itself: what they hold, what they cannot carry, and how their logs answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.bench.benchmark import AgentLoad, Invocation, Network, Step
from ktrial.kit.errors import BadInput, Refused
from ktrial.machine.gate_readings import Thermometers
from ktrial.machine.gates import parse_gates
from ktrial.trial.unattended.log import MadeVisit, PlanAnswer, ended_in, lines_of, made_visits
from ktrial.trial.unattended.plan import PlannedGate, planned_gates, refuse_invocation
from ktrial.trial.unattended.replay import Answers, AnswerTransport, LogClock, Unanswered

COLD = Thermometers(known=frozenset(), hottest=None)
WARM = Thermometers(known=frozenset(("temperature.b", "temperature.a")), hottest="temperature.a")


def line(event: str, at: int = 1, **fields: Any) -> bytes:
    return msgspec.json.encode({"event": event, "at_ns": at, "at_unix_ms": at, "slept_ms": 0, **fields}) + b"\n"


def answer(do: str, ok: Any, at: int = 1, by: str = "root", **fields: Any) -> bytes:
    return line("answer", at, **{"as": by, "do": do, "began_ns": at, "began_unix_ms": at, "ok": ok, **fields})


BEGUN = line("begun", schema="ktrial.unattended-log/1", plan="x", sha256="0", token=1, boot_id="b", agent="0")


def visit(*lines: bytes) -> MadeVisit:
    data = BEGUN + line("visit", visit=0, block=1, arm="case") + b"".join(lines) + line("visit-ended", visit=0)
    (made,) = made_visits(lines_of(data))
    return made


def test_only_gates_that_void_runs_are_in_a_plan_and_the_hottest_sensor_is_needed() -> None:
    found = {gate.gate: gate for gate in planned_gates(parse_gates({}), {"temperature_c": 45.0}, WARM)}
    assert set(found) == {"start_temperature", "on_ac", "battery"}
    heat = found["start_temperature"]
    assert (heat.rule, heat.refuse, heat.reference, heat.wait_s) == ("distance", 8, 45.0, 60.0)
    assert msgspec.to_builtins(heat.reading)["highest"] == {
        "source": "temperature",
        "columns": ("temperature.a", "temperature.b"),
        "needed": "temperature.a",
    }
    assert found["on_ac"].reference is None


def test_a_gate_that_a_plan_cannot_compare_is_refused_only_if_it_can_void_a_run() -> None:
    limits = parse_gates({"swap": {"refuse": "1GiB"}})
    with pytest.raises(Refused, match="the gate swap with `refuse`"):
        planned_gates(limits, None, COLD)
    uptime: list[PlannedGate] = [
        gate for gate in planned_gates(parse_gates({"uptime": {"refuse": "8x"}}), None, COLD) if gate.gate == "uptime"
    ]
    assert [(gate.rule, gate.refuse) for gate in uptime] == [("ratio", 8)]


@pytest.mark.parametrize(
    "more, what",
    [
        ({"steps": (Step(argv=("true",)),)}, "steps"),
        ({"load": AgentLoad(name="zram", as_root=True)}, "root"),
        ({"realtime_priority": 1}, "real-time"),
        ({"network": Network(server=("nc",), port=1)}, "network"),
        ({"watches": ("/proc/stat",)}, "files read"),
        ({"records": True}, "recording"),
        ({"in_memory": True}, "in memory"),
    ],
)
def test_a_benchmark_that_needs_more_than_a_command_is_refused_by_name(more: dict[str, Any], what: str) -> None:
    refuse_invocation("tool", Invocation(argv=("true",), limit_s=1.0))
    with pytest.raises(Refused, match=f"tool, which needs .*{what}"):
        refuse_invocation("tool", Invocation(argv=("true",), limit_s=1.0, **more))


def test_a_visit_that_was_cut_off_is_not_made_and_a_line_without_its_end_is_missing() -> None:
    whole = BEGUN + line("visit", visit=0, block=1, arm="case") + line("visit-ended", visit=0)
    cut = whole + line("visit", visit=1, block=1, arm="control") + line("visit-ended", visit=1)[:-1]
    assert [made.visit.arm for made in made_visits(lines_of(cut))] == ["case"]
    assert ended_in(lines_of(cut)) is None
    assert ended_in(lines_of(whole + line("ended", reason="done", message=""))) is not None


def test_a_line_that_is_none_of_the_format_is_told_with_its_number() -> None:
    with pytest.raises(BadInput, match="cannot read line 2 of the log"):
        lines_of(BEGUN + b"{}\n")


def test_answers_come_in_order_and_runs_can_be_left_out() -> None:
    run = [line("run", visit=0, run=number, command="sh") for number in (0, 1)]
    made = visit(
        answer("apply", {"transaction": 3}, 2),
        run[0],
        answer("exec", {"n": 0}, 3, by="user"),
        run[1],
        answer("exec", {"n": 1}, 4, by="user"),
        answer("revert", {"transactions": []}, 5),
    )
    answers = Answers()
    answers.load(made, 1)
    assert answers.take("root", "apply", {}).ok == {"transaction": 3}
    assert answers.take("user", "exec", {}).ok == {"n": 1}
    assert answers.take("root", "revert", {}).ok == {"transactions": []}
    with pytest.raises(Unanswered, match="'exec'"):
        answers.take("user", "exec", {})


def test_files_that_were_read_with_others_are_found_and_others_are_not() -> None:
    values = [{"path": path, "bytes": "1\n", "mode": "0644"} for path in ("/a", "/b")]
    answers = Answers()
    answers.load(visit(answer("read", {"values": values}, fields={"paths": ["/a", "/b"]})), 0)
    assert answers.content("root", "read", {"paths": ["/b"]}) == {"ok": {"values": [values[1]]}}
    with pytest.raises(Unanswered):
        answers.content("root", "read", {"paths": ["/c"]})


def test_the_clock_is_that_of_the_answer_and_a_sleep_moves_it() -> None:
    answers = Answers()
    answers.load(visit(answer("verify", {"transactions": []}, 7, fields={})), 0)
    clock = LogClock(answers)
    assert isinstance(answers.take("root", "verify", {}), PlanAnswer)
    assert clock.monotonic_ns() == 7
    clock.sleep(1.0)
    assert (clock.monotonic_ns(), clock.unix_ms(), clock.slept_s()) == (1_000_000_007, 1007, 0.0)


def test_a_sampling_begins_at_once_and_its_samples_are_the_last_answer() -> None:
    answers = Answers()
    answers.load(visit(answer("samples", {"times_ns": [1, 2]}, by="sampler")), 0)
    transport = AnswerTransport(answers, "sampler")
    transport.send(b'{"id":1,"do":"sample","tell_begun":true,"limit_s":1.0}\n')
    assert msgspec.json.decode(transport.receive()) == {"id": 1, "begun": True}
    transport.hang_up()
    assert msgspec.json.decode(transport.receive()) == {"id": 1, "ok": {"times_ns": [1, 2]}}
