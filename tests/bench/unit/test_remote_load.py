# SPDX-License-Identifier: Apache-2.0
"""Benchmarks whose load comes from another machine: what they run where, and what happens if that machine fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from ktrial.bench.adapters import all_benchmarks, iperf3
from ktrial.bench.adapters._tool import RemoteLoad, ToolBenchmark
from ktrial.bench.benchmark import ADDRESS, AUTHORITY, PORT, SECRET, Invocation, RawOutput
from ktrial.bench.record import Execution, Watch
from ktrial.bench.remote_load import LoadedBenchmark, ServerAddress, fill_words, refuse_unloaded, with_remote_load
from ktrial.bench.run.load_generator import GeneratorLost, LoadGenerator, own_addresses, taken_ports
from ktrial.kit.errors import AgentError, BadInput, BadRun, KtrialError, UnknownName
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.reading import Reading
from tests.support.bench import FakeClock

FACTS = {"boot.id": "one", "cpu.model": "some CPU", "cpu.threads": 4, "kernel.release": "6.1"}
IDENTITY = "some CPU, 4 CPUs, Linux 6.1, redis-benchmark 7.0.15"
LOADED = with_remote_load(all_benchmarks(), lambda program: f"a machine with {program.needs[0]}")
NAMES = sorted(name for name, one in LOADED.items() if isinstance(one, LoadedBenchmark))
GOOD = RawOutput(exit_status=0, wall_ns=1, user_us=0, system_us=0)
TREE = """Main:
  |-- 127.0.0.1
     /32 host LOCAL
  |-- 10.0.0.5
     /32 host LOCAL
  |-- 10.0.0.255
     /32 link BROADCAST
"""


def run_of(name: str = "redis-benchmark-get") -> Invocation:
    return LOADED[name].invocation({}, FactBook({}))


class FakeExecutor:
    """Runs nothing; `answers` has an output, or an error, for each program."""

    def __init__(self, answers: Mapping[str, RawOutput | KtrialError], facts: Mapping[str, object] = FACTS) -> None:
        self.clock = FakeClock()
        self.ran: list[Invocation] = []
        self._answers = answers
        self._facts = facts

    def facts(self) -> FactBook:
        return FactBook({name: Fact(value=value) for name, value in self._facts.items()})

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        return dict.fromkeys(paths)

    def programs(self, names: Iterable[str]) -> Mapping[str, str | None]:
        return {name: f"/usr/bin/{name}" if name in {*self._answers, "apt-get"} else None for name in names}

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        self.ran.append(invocation)
        if watch is not None:
            watch.begin()
        answer = self._answers["--version" if "--version" in invocation.argv else invocation.argv[0]]
        if isinstance(answer, KtrialError) and invocation.limit_s > 11:
            raise answer
        if watch is not None:
            watch.end()
        return Execution(
            argv=(f"/usr/bin/{invocation.argv[0]}", *invocation.argv[1:]),
            steps=tuple((f"/usr/bin/{one.argv[0]}", *one.argv[1:]) for one in invocation.steps),
            environment=invocation.environment,
            directory="/there",
            started_monotonic_ns=0,
            started_unix_ms=0,
            raw=GOOD if isinstance(answer, KtrialError) else answer,
        )

    def close(self) -> None:
        self._answers = {}


VERSION = RawOutput(exit_status=0, stdout=b"redis-benchmark 7.0.15")


def generator(*executors: FakeExecutor, left: Callable[[], None] = lambda: None) -> LoadGenerator:
    rest = iter(executors)
    load = LoadGenerator("load1", "web1", ServerAddress("10.0.0.5"), lambda: next(rest), left)
    if executors:
        assert load.identify(remote("redis-benchmark-get").generator) == IDENTITY
    return load


def remote(name: str) -> RemoteLoad:
    found = LOADED[name]
    assert isinstance(found, LoadedBenchmark)
    return found.remote


def answering(answer: RawOutput | KtrialError = GOOD, facts: Mapping[str, object] = FACTS) -> FakeExecutor:
    return FakeExecutor({"redis-benchmark": answer, "--version": VERSION}, facts)


def test_all_server_benchmarks_can_be_loaded_from_another_machine() -> None:
    assert NAMES == ["iperf3", "pgbench", "redis-benchmark-get", "redis-benchmark-set", "wrk-nginx"]


@pytest.mark.parametrize("name", NAMES)
def test_the_server_listens_on_one_address_and_its_words_have_no_password(name: str) -> None:
    invocation = run_of(name)
    part = invocation.generator
    assert part is not None
    server = [word for step in invocation.steps for word in (*step.argv, step.stdin.decode())]
    assert any(ADDRESS in word or AUTHORITY in word for word in server)
    assert not any("127.0.0.1" in word or "listen_addresses=*" in word for word in server)
    assert not any(SECRET in word for step in invocation.steps for word in (*step.argv, *step.ready))
    sending = [invocation.argv, part.reach, *(step.argv for step in part.steps)]
    assert all(argv[0] in remote(name).generator.needs for argv in sending)
    assert all(ADDRESS in argv or any(AUTHORITY in word for word in argv) for argv in sending)
    text = repr(fill_words(invocation, ServerAddress("fd00::5").words(7000, "pass")))
    assert not any(word in text for word in (ADDRESS, PORT, AUTHORITY, SECRET))


@pytest.mark.parametrize("name", NAMES)
def test_a_run_with_its_load_from_elsewhere_is_another_measurement(name: str) -> None:
    plain, far = all_benchmarks()[name], LOADED[name]
    assert isinstance(plain, ToolBenchmark)
    assert far.parameters["generator"].startswith("a machine with ")
    assert "generator" not in plain.parameters
    assert [one.name for one in far.outcomes] == [one.name for one in plain.outcomes]
    assert all("share the CPUs" not in one.blind_spots for one in far.outcomes)
    with pytest.raises(BadInput, match="ktrial sets it"):
        far.invocation({"generator": "mine"}, FactBook({}))
    with pytest.raises(UnknownName):
        far.invocation({"no-such": 1}, FactBook({}))


def test_a_benchmark_without_a_server_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="cannot measure hackbench-pipe-thread with --load-from") as caught:
        refuse_unloaded("hackbench-pipe-thread", LOADED["hackbench-pipe-thread"], LOADED)
    assert ", ".join(NAMES) in str(caught.value.hint)


def test_parameters_of_the_link_here_are_unknown_with_another_machine() -> None:
    with pytest.raises(UnknownName):
        LOADED["iperf3"].invocation({"delay_us": 5}, FactBook({}))
    assert run_of("iperf3").network is None


@pytest.mark.parametrize("version, threads", [("3.12", 1), ("3.16", 4), ("3.18", 4), ("4.0", 4)])
def test_threads_of_iperf3_hang_on_its_version(version: str, threads: int) -> None:
    command = remote("iperf3").command
    parameters = {**all_benchmarks()["iperf3"].parameters, "reverse": True, "streams": 4}
    invocation = command({**parameters, "generator": f"some CPU, 4 CPUs, Linux 3.1, iperf {version}"})
    assert invocation.generator is not None
    assert invocation.generator.threads == threads
    assert invocation.argv[-1] == "-R"


@pytest.mark.parametrize("asked, reported, fits", [(False, 0, True), (True, 1, True), (True, 0, False)])
def test_the_direction_of_iperf3_is_checked(*, asked: bool, reported: int, fits: bool) -> None:
    case = Path(iperf3.__file__).parent / "cases/3.12-stream/stdout"
    text = re.sub(rb'"reverse":\s*\d', b'"reverse": %d' % reported, case.read_bytes())
    start = json.loads(text)["start"]["test_start"]
    shape = {"seconds": start["duration"], "omit_seconds": start["omit"], "streams": start["num_streams"]}
    parameters = {**shape, "reverse": asked, "generator": "some CPU"}
    raw = RawOutput(exit_status=0, stdout=text)
    if fits:
        assert LOADED["iperf3"].parse(raw, parameters).measurements
    else:
        with pytest.raises(BadRun, match="asked for reverse True"):
            LOADED["iperf3"].parse(raw, parameters)
    with pytest.raises(UnknownName):
        all_benchmarks()["iperf3"].parse(raw, {**shape, "reverse": asked})


def test_a_long_address_has_brackets_only_in_urls() -> None:
    words = ServerAddress("fd00::5").words(7000, "pass")
    assert words == {ADDRESS: "fd00::5", PORT: "7000", AUTHORITY: "[fd00::5]:7000", SECRET: "pass"}


def test_a_run_has_a_free_port_and_a_password_of_its_own() -> None:
    rows = "sl local_address\n 0: 00000000:4E20 00000000:0000 0A\n 1: 0100007F:7D00 00000000:0000 01"
    taken = {"/proc/net/tcp": Reading(data=rows.encode()), "/proc/net/tcp6": None}
    assert taken_ports(taken) == {20_000, 32_000}
    assert taken_ports(taken, "0A") == {20_000}
    all_but_one = "\n".join(f" 0: 00000000:{port:04X} 0 06" for port in range(20_000, 31_999))
    only = {"/proc/net/tcp": Reading(data=all_but_one.encode())}
    first, second = (generator().place(run_of(), lambda _: only) for _ in range(2))
    assert first.words[PORT] == second.words[PORT] == "31999"
    assert first.words[SECRET] != second.words[SECRET]
    assert first.told == second.told, "records are the same"
    assert first.hide(f"at 10.0.0.5:31999 with {first.words[SECRET]}".encode()) == b"at {authority} with {secret}"


def test_a_port_of_another_server_is_refused_because_the_load_would_hit_that() -> None:
    load = LoadGenerator("load1", "web1", ServerAddress("10.0.0.5", 20_000), answering, lambda: None)
    taken = " 0: 0500000A:4E20 00000000:0000 {state} 00000000:00000000"
    gone, listening = ({"/proc/net/tcp": Reading(data=taken.format(state=one).encode())} for one in ("06", "0A"))
    assert load.place(run_of(), lambda _: gone).words[PORT] == "20000"
    with pytest.raises(BadInput, match="another server listens on port 20000 of web1"):
        load.place(run_of(), lambda _: listening)


def test_a_run_tells_the_generator_and_hides_the_password() -> None:
    executor = answering()
    load = generator(executor)
    placed = load.place(run_of(), lambda _: {})
    sent = load.run(placed, None)
    assert sent.generator is not None
    assert (sent.generator.name, sent.generator.measured, sent.generator.identity) == ("load1", "web1", IDENTITY)
    assert sent.argv == ("/usr/bin/redis-benchmark", *placed.told.argv[1:])
    assert SECRET in sent.argv
    assert placed.words[SECRET] not in repr((sent.argv, sent.steps, sent.environment))
    assert placed.words[SECRET] in executor.ran[-1].argv, "the real one is used"


def test_a_lost_connection_is_told_and_the_next_run_connects_again() -> None:
    closed: list[str] = []
    load = generator(
        answering(AgentError("lost", "lost the connection to load1")), answering(), left=lambda: closed.append("left")
    )
    placed = load.place(run_of(), lambda _: {})
    with pytest.raises(GeneratorLost, match="cannot send the load from load1: lost the connection to load1"):
        load.run(placed, None)
    assert closed == ["left"]
    assert load.run(placed, None).raw == GOOD


def test_a_generator_that_has_changed_sends_no_load() -> None:
    newer = answering(facts={**FACTS, "kernel.release": "6.2"})
    load = generator(answering(AgentError("lost", "gone")), newer)
    placed = load.place(run_of(), lambda _: {})
    with pytest.raises(GeneratorLost, match="gone"):
        load.run(placed, None)
    with pytest.raises(GeneratorLost, match=r"load1 has changed: it was .* Linux 6.1, .* and is now .* Linux 6.2, "):
        load.run(placed, None)
    assert not any(one.argv[0] == "redis-benchmark" and "-h" in one.argv for one in newer.ran)


@pytest.mark.parametrize(
    "answer, why, step",
    [
        (
            RawOutput(timed_out=True),
            "no answer within 10 s",
            "use --load-address ADDRESS:PORT with a port that the firewall of web1 lets through",
        ),
        (
            RawOutput(exit_status=1, stderr=b"Connection refused"),
            "redis-benchmark ended with status 1.*refused",
            "check the network between load1 and web1",
        ),
    ],
)
def test_a_server_that_is_not_reached_fails_the_run(answer: RawOutput, why: str, step: str) -> None:
    executor = answering(answer)
    load = generator(executor)
    with pytest.raises(GeneratorLost, match=rf"load1 does not reach the server at 10.0.0.5 on web1 \({why}") as lost:
        load.run(load.place(run_of(), lambda _: {}), None)
    assert lost.value.hint == step
    asked = [one for one in executor.ran if "--version" not in one.argv]
    assert len(asked) == (1 if answer.timed_out else 3), "a server may need a moment, a firewall never gives in"


def test_an_error_of_the_measured_machine_is_not_the_generators() -> None:
    class Failing:
        def begin(self) -> None:
            raise AgentError("lost", "lost the connection to web1")

        def end(self) -> None: ...

    load = generator(answering())
    with pytest.raises(AgentError, match="lost the connection to web1"):
        load.run(load.place(run_of(), lambda _: {}), Failing())


def test_missing_programs_are_named_with_the_command_that_installs_them() -> None:
    with pytest.raises(BadInput, match="cannot send the load of wrk-nginx from load1: it lacks wrk") as caught:
        generator(answering()).check([refuse_unloaded("wrk-nginx", LOADED["wrk-nginx"], LOADED)])
    assert caught.value.hint == "on load1: sudo apt install wrk"


def test_the_measured_machine_cannot_be_its_own_generator() -> None:
    with pytest.raises(BadInput, match="load1 and web1 are the same machine"):
        generator(answering()).check_server("one", lambda _: {})


def test_the_server_needs_an_address_of_the_measured_machine() -> None:
    files = {"/proc/net/fib_trie": Reading(data=TREE.encode()), "/proc/net/if_inet6": None}
    assert own_addresses(files) == ("10.0.0.5",)
    long = b"fe800000000000000000000000000001 02\nfd000000000000000000000000000005 02\n" + b"0" * 31 + b"1 01\n"
    assert own_addresses({**files, "/proc/net/if_inet6": Reading(data=long)}) == ("10.0.0.5", "fd00::5")
    generator(answering()).check_server("two", lambda _: files)
    other = Reading(data=TREE.replace("10.0.0.5", "10.0.0.6").encode())
    with pytest.raises(BadInput, match=r"10\.0\.0\.5 is not an address of web1") as caught:
        generator(answering()).check_server("two", lambda _: {"/proc/net/fib_trie": other})
    assert caught.value.hint == "use --load-address with one of: 10.0.0.6"


def test_each_generator_program_tells_its_version() -> None:
    for name in NAMES:
        far = remote(name)
        assert all(one.version and one.version_pattern for one in (far.server, far.generator))
        assert far.generator.needs[0] == run_of(name).argv[0], "its version identifies the generator"
