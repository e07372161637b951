# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.availability import IN_CONTAINER, Availability, examine, examine_with
from ktrial.bench.benchmark import Invocation, Parameters, Probe, RawOutput
from ktrial.bench.build_tool import get_tool
from ktrial.bench.guest_tools import GuestTools
from ktrial.bench.measure import measure
from ktrial.bench.record import Execution, Watch
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Task
from ktrial.bench.tool import Receipt, Recipe, ToolSource
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.machine.container import Container
from ktrial.machine.facts import FactBook
from tests.bench.unit.test_model_tool import RECEIPT, RECIPE
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, FakeStore, answer

CONTAINER = Container(runtime="podman", runtime_version="podman 5", image="x", image_id="sha256:" + "a" * 64, argv=())


class FakeWorkshop:
    """Builds nothing; `log` says what it was asked for."""

    environment: Mapping[str, str] = {"LC_ALL": "C"}

    def __init__(self, *, installed: Iterable[str] = ("git", "make", "gcc")) -> None:
        self.log: list[str] = []
        self._installed = set(installed)

    def programs(self, names: Iterable[str]) -> dict[str, str | None]:
        return {name: name if name in self._installed else None for name in names}

    def fetch(self, recipe: Recipe, place: str | None, accepted_sha256: str | None) -> ToolSource:
        self.log.append(f"fetch {place}")
        return ToolSource(kind="git", place=place or recipe.upstream, commit=recipe.commit, verified="commit")

    def tree_sha256(self) -> str:
        return "b" * 64

    def versions(self, compilers: Iterable[str]) -> dict[str, str]:
        return {name: f"{name} 12" for name in compilers}

    def build(self, steps: Iterable[Sequence[str]]) -> None:
        self.log += [" ".join(step) for step in steps]

    def built(self, programs: Mapping[str, str]) -> dict[str, Path]:
        return {name: Path(place) for name, place in programs.items()}

    def sha256(self, path: Path) -> str:
        return "c" * 64

    def install(self, receipt: Receipt, files: dict[str, Path]) -> Path:
        self.log.append(f"install {receipt.folder}")
        return Path("/tools")


def test_the_receipt_tells_all_that_the_programs_depend_on() -> None:
    workshop = FakeWorkshop()
    receipt, folder = get_tool(RECIPE, None, None, workshop, workshop, lambda: 1)
    assert receipt == msgspec.structs.replace(RECEIPT, compilers={"gcc": "gcc 12"})
    assert folder == Path("/tools")
    assert workshop.log == ["fetch None", "make", f"install {receipt.folder}"]


def test_what_building_needs_is_named_before_anything_is_fetched() -> None:
    recipe = msgspec.structs.replace(RECIPE, packages={"apt": "git make gcc"})
    workshop = FakeWorkshop(installed=("make", "apt-get"))
    with pytest.raises(KtrialError, match="missing git, gcc") as caught:
        get_tool(recipe, None, None, workshop, workshop, lambda: 1)
    assert caught.value.hint == "sudo apt install git make gcc"
    assert workshop.log == []


def test_files_that_the_commit_should_not_hold_are_not_built() -> None:
    workshop = FakeWorkshop()
    with pytest.raises(KtrialError, match="has unexpected files"):
        get_tool(msgspec.structs.replace(RECIPE, tree_sha256="e" * 64), None, None, workshop, workshop, lambda: 1)
    assert workshop.log == ["fetch None"]


def test_a_digest_for_what_is_no_archive_is_refused() -> None:
    workshop = FakeWorkshop()
    with pytest.raises(BadInput, match=r"--accept-sha256 needs an archive, but .*x\.git is a git repository"):
        get_tool(RECIPE, "https://example.org/x.git", "a" * 64, workshop, workshop, lambda: 1)
    assert workshop.log == ["fetch https://example.org/x.git"]


@pytest.mark.parametrize(
    "packages, container, step",
    [
        ({}, None, "ktrial tools get schbench"),
        ({"dnf": "schbench"}, None, "ktrial tools get schbench"),
        ({"apt": "schbench"}, None, "sudo apt install schbench"),
        ({"apt": "schbench"}, CONTAINER, IN_CONTAINER),
    ],
)
def test_the_next_step_for_a_tool_that_is_missing(
    packages: dict[str, str], container: Container | None, step: str
) -> None:
    executor = FakeExecutor(installed=("apt-get",))
    executor.container = container
    (found,) = examine([FakeBenchmark(name="a", needs=("schbench",), packages=packages)], executor)
    assert found.next == step


ABSENT = {"schbench": None, "sh": None}


class Standalone(FakeBenchmark):
    """A program that guests can have."""

    standalone = True


def test_a_guest_that_is_the_host_runs_programs_that_it_has_and_loads() -> None:
    executor = FakeExecutor(installed=("schbench", "/usr/bin/own"))
    executor.guest = GuestTools(places={"schbench": "/usr/bin/schbench"}, kept="lab")
    needs: tuple[tuple[str, ...], ...] = ((), ("schbench",), ("/usr/bin/own",))
    assert all(one.ready for one in examine([Standalone(name="a", needs=one) for one in needs], executor))
    (server,) = examine([FakeBenchmark(name="a", needs=("schbench",))], executor)
    assert (server.ready, server.next) == (False, "leave out --host")


@pytest.mark.parametrize(
    "guest, why, step",
    [
        (
            GuestTools(places={}, kept="lab"),
            "schbench, sh are not in the guest lab",
            "`ktrial kernel boot KERNEL --keep lab --tool schbench --tool sh`",
        ),
        (GuestTools(places={}, found={**ABSENT, "apt-get": "/x"}), "not installed on this", "sudo apt install sb"),
        (GuestTools(places={}, found=ABSENT), "not installed on this machine", "install schbench, sh by hand"),
        (GuestTools(places={}), "schbench, sh are not in the guest", "--keep NAME --tool schbench --tool sh"),
        (GuestTools(places={}, foreign=True), "of another architecture", "use the agent-* benchmarks"),
    ],
)
def test_what_a_guest_that_is_the_host_has_not(guest: GuestTools, why: str, step: str) -> None:
    executor = FakeExecutor(installed=())
    executor.guest = guest
    (found,) = examine([Standalone(name="a", needs=("schbench", "sh"), packages={"apt": "sb"})], executor)
    assert found.why is not None
    assert why in found.why
    assert found.next is not None
    assert step in found.next


class Tells(FakeExecutor):
    """Says of each run what its program was built from, and where it ran."""

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        done = super().run(invocation, watch)
        return msgspec.structs.replace(done, built=RECEIPT, container=CONTAINER)


def test_build_and_container_are_in_the_record() -> None:
    store = FakeStore()
    task = Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 1})
    measure(
        Order(suite="own", tasks=(task,), rounds=1, seed=1), Tells(), store, FakeClock(), FactBook({}), lambda _: None
    )
    assert store.records[0].tool_version == RECEIPT.version()
    assert (store.records[0].built, store.records[0].container) == (RECEIPT, CONTAINER)


def probed(reply: RawOutput) -> Availability:
    """What a benchmark with a probe is called when the answer is `reply`."""
    asked = Invocation(argv=("tool", "--can-you"), limit_s=1)
    probe = Probe(invocation=lambda _: asked, why_not=lambda raw: raw.stdout.decode() or None, next="another kernel")
    (found,) = examine([FakeBenchmark(name="a", probe=probe)], FakeExecutor(lambda argv: reply))
    return found


def test_a_benchmark_that_cannot_work_says_why() -> None:
    found = probed(answer(b"this kernel does nothing"))
    assert (found.ready, found.why, found.next) == (False, "this kernel does nothing", "another kernel")
    assert probed(answer(b"")).ready
    with pytest.raises(KeyboardInterrupt):
        probed(answer(b"", interrupted=True))


def test_a_benchmark_is_asked_for_the_parameters_that_it_will_run_with() -> None:
    display = all_benchmarks()["glmark2-display"]
    assert display.probe is not None
    asked = display.probe.invocation({**display.parameters, "display": ":7", "authority": "/run/x"})
    assert asked.environment == {"DISPLAY": ":7", "XAUTHORITY": "/run/x"}
    seen: list[Parameters] = []

    def ask(parameters: Parameters) -> Invocation:
        seen.append(parameters)
        return asked

    found = FakeBenchmark(name="a", probe=Probe(invocation=ask, why_not=lambda _: None, next=""))
    examine_with([(found, {"loops": 9})], FakeExecutor(lambda argv: answer(b"")))
    assert seen == [{**found.parameters, "loops": 9}]


YAML = b"""---
system-info:
      stress-ng-version: 0.15.06
metrics:
    - stressor: af-alg
      bogo-ops: %d
      bogo-ops-per-second-usr-sys-time: 0.000000
      bogo-ops-per-second-real-time: 0.000000
      wall-clock-time: 1.000214
      user-time: 0.000000
      system-time: 0.000000
...
"""


@pytest.mark.parametrize(
    "name, raw, words",
    [
        ("stress-ng-af-alg", answer(b"", files={"out.yaml": YAML % 0}), "not one operation"),
        ("stress-ng-af-alg", answer(b"", exit_status=3, stderr=b"not implemented"), "not implemented"),
        ("stress-ng-af-alg", answer(b"", files={"out.yaml": YAML % 7}), None),
        (
            "boot-time",
            answer(b"", exit_status=1, stderr=b"System has not been booted with systemd as init system (PID 1).\nx\n"),
            "has not been booted with systemd as init system (PID 1)",
        ),
        (
            "boot-time",
            answer(b"", exit_status=1, stderr=b"Bootup is not yet finished (FinishTimestampMonotonic=0).\n"),
            "Bootup is not yet finished",
        ),
        ("boot-time", answer(b"Startup finished in 2.5s (kernel) + 8s (userspace) = 10.5s"), None),
        (
            "glmark2-display",
            answer(b"", exit_status=1, stderr=b"Error: main: Could not initialize canvas\n"),
            "Could not initialize canvas",
        ),
        ("glmark2-device", answer(b"glmark2 Score: 9", stderr=b"** Failed to set swap interval.\n"), None),
        ("zram-zstd", answer(b"[lzo-rle] lzo lz4 \n"), "not support zstd, only lzo-rle, lzo, lz4"),
        ("zram-lzo-rle", answer(b"[lzo-rle] lzo lz4 \n"), None),
        ("zram-zstd", answer(b"", exit_status=1), None),  # no device tells what the kernel has
    ],
)
def test_what_the_kernel_or_the_boot_does_not_offer(name: str, raw: RawOutput, words: str | None) -> None:
    probe = all_benchmarks()[name].probe
    assert probe is not None
    why = probe.why_not(raw)
    assert (words or "") in (why or "")
    assert (why is None) == (words is None)
    assert not (why or "").endswith("."), "the next step follows it in one sentence"


def test_an_exact_guest_does_not_measure_what_its_clock_cannot_tell() -> None:
    executor = FakeExecutor(installed=("perf", "sh"))
    executor.guest = GuestTools(places={}, exact=True)
    found = examine([all_benchmarks()[name] for name in ("perf-memcpy", "perf-messaging")], executor)
    assert [one.ready for one in found] == [False, True]
    assert found[0].why is not None
    assert "does not count the time of caches" in found[0].why
