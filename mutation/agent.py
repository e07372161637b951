# SPDX-License-Identifier: Apache-2.0
"""Mutants of the agent: as cargo-mutants lists them, in a copy of the checkout.

All of a sample are built together, and the tests in Rust run with each. What lives on there, or does not build with the
others, cargo-mutants plants alone; what the tests in Rust let live then too runs under the tests that kill the agent.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mutation.errors import CannotRun
from mutation.listed import ROOT, Group
from mutation.mutant import Fate, Mutant
from mutation.together import Piece, Told, planted, unbuilt

_TOOL = ROOT / ".setup" / "cargo-mutants" / "bin" / "cargo-mutants"
_WORK = ROOT / ".setup" / "mutation"
_FATES = {"caught": Fate.CAUGHT, "timeout": Fate.TIMED_OUT, "missed": Fate.SURVIVED, "unviable": Fate.UNBUILT}
#: A build and its tests take no longer, unless the mutant never ends.
_BUILD_S, _TEST_S, _THEN_S = 600, 60, 900
#: What a mutant started and what never ends goes with the tests that it is run by: agents in a loop slow the next ones.
_AS_ONESELF = () if os.geteuid() == 0 else ("--map-current-user",)
_ALONE = ("unshare", *_AS_ONESELF, "--pid", "--mount-proc", "--fork", "--kill-child")
#: What joins flags that have no bit in common is the same either way; nothing else is joined by it here.
_JOINED = "replace | with ^"
#: Between two of these the clock is looked at.
_AT_A_TIME = 10
#: Statuses of cargo-mutants that tell the fates of mutants, not of itself: all caught, some missed, some timed out.
_RAN = {0, 2, 3}
_PASSED, _FAILED = 0, 1


class Agent:
    """The mutants of the agent."""

    def __init__(self, tool: Path = _TOOL, work: Path = _WORK) -> None:
        if not tool.exists():
            raise CannotRun(f"{tool} is missing: run `./check --full`, which installs it")
        self._tool = tool
        self._tree = work / "tree"
        self._output = work / "output"
        self._output.mkdir(parents=True, exist_ok=True)
        self._names: dict[Mutant, str] = {}
        self._told: dict[Mutant, Told] = {}
        refresh(ROOT, self._tree)

    def all_mutants(self, group: Group) -> list[Mutant]:
        """All mutants of the functions that a group names. Raises CannotRun."""
        found = []
        for listed in group.files:
            choose = ("--list", "--file", listed.file.removeprefix("agent/"))
            names = self._tell(*choose).splitlines()
            told = json.loads(self._tell(*choose, "--json", "--diff"))
            known = named(names, told)
            self._names |= {mutant: name for mutant, (name, _) in known.items()}
            self._told |= {mutant: one for mutant, (_, one) in known.items()}
            found += listed.named(list(known))
        return found

    def run(self, group: Group, sample: Sequence[Mutant], deadline: float) -> Iterator[tuple[Mutant, Fate]]:
        """The fate of each mutant; after the deadline no more are begun. Raises CannotRun."""
        alone = dict.fromkeys(sample)
        for mutant, fate in self._together(sample, group.tests, deadline):
            if fate is not Fate.SURVIVED:
                del alone[mutant]
                yield mutant, fate
        mutants = {self._names[one]: one for one in alone}
        left = list(mutants)
        is_first = True
        while left and time.monotonic() < deadline:
            some, left = left[:_AT_A_TIME], left[_AT_A_TIME:]
            for name, fate in self._fates(some, group.tests, is_first=is_first).items():
                mutant = mutants[name]
                yield mutant, self._then(mutant, group.then) if fate is Fate.SURVIVED and group.then else fate
            is_first = False

    def _together(
        self, sample: Sequence[Mutant], tests: Sequence[str], deadline: float
    ) -> Iterator[tuple[Mutant, Fate]]:
        """The fate of each mutant that builds with the others."""
        command = [*_ALONE, "cargo", "test", "--quiet", "--locked", "--manifest-path", "agent/Cargo.toml", *tests]
        with tempfile.TemporaryDirectory(prefix="ktrial-mutation-") as folder:
            Path(folder).chmod(0o755)  # agents read the file there as other users too
            chosen = Path(folder) / "chosen"
            with self._built(dict(enumerate(sample, 1)), tests, chosen) as built:
                for number, mutant in {0: None, **built}.items():
                    if time.monotonic() > deadline:
                        return
                    chosen.write_text(str(number), encoding="ascii")
                    status = self._ended(command, _TEST_S if number else _BUILD_S)
                    if mutant is not None:
                        yield mutant, {0: Fate.SURVIVED, None: Fate.TIMED_OUT}.get(status, Fate.CAUGHT)
                    elif status != 0:
                        raise CannotRun(
                            f"without any mutant, this ends with {status} in {self._tree}: {shlex.join(command)}"
                        )

    @contextlib.contextmanager
    def _built(self, mutants: dict[int, Mutant], tests: Sequence[str], chosen: Path) -> Iterator[Mapping[int, Mutant]]:
        """The tests, built with all mutants that build together; the sources are as they were afterwards."""
        own = {file: (self._tree / file).read_text(encoding="utf-8") for file in {one.file for one in mutants.values()}}
        try:
            while True:
                pieces = {
                    file: planted(
                        source, {place: self._told[one] for place, one in mutants.items() if one.file == file}, chosen
                    )
                    for file, source in own.items()
                }
                for file, found in pieces.items():
                    (self._tree / file).write_text("".join(one.text for one in found), encoding="utf-8")
                if not (wrong := self._wrong(tests, pieces)):
                    there = set().union(*(one.mutants for found in pieces.values() for one in found))
                    yield {place: one for place, one in mutants.items() if place in there}
                    return
                mutants = {place: one for place, one in mutants.items() if place not in wrong}
        finally:
            for file, source in own.items():
                (self._tree / file).write_text(source, encoding="utf-8")

    def _wrong(self, tests: Sequence[str], pieces: Mapping[str, Sequence[Piece]]) -> set[int]:
        """The mutants that do not build with the others; none when all did. Raises CannotRun."""
        own = tests[: tests.index("--")] if "--" in tests else tests
        command = ("cargo", "test", "--no-run", "--locked", "--message-format=json", *own)
        done = subprocess.run(
            command, cwd=self._tree / "agent", env=environment(), capture_output=True, text=True, check=False
        )
        told = [json.loads(line) for line in done.stdout.splitlines()]
        errors = [one["message"] for one in told if one["reason"] == "compiler-message"]
        wrong: set[int] = set()
        for span in (span for one in errors if one["level"] == "error" for span in one["spans"] if span["is_primary"]):
            wrong |= unbuilt(pieces.get(f"agent/{span['file_name']}", ()), span["line_start"], span["line_end"])
        if done.returncode and not wrong:
            raise CannotRun(f"the agent does not build with any mutant:\n{done.stderr[-4000:]}")
        return wrong

    def _fates(self, names: Sequence[str], tests: Sequence[str], *, is_first: bool) -> dict[str, Fate]:
        """What the tests in Rust make of mutants; the first time also whether they pass without any."""
        exactly = "|".join(re.escape(name) for name in names)
        done = self._cargo_mutants(
            *("--in-place", "--no-shuffle", "--output", str(self._output), "--baseline", "run" if is_first else "skip"),
            *("--build-timeout", str(_BUILD_S), "--timeout", str(_TEST_S), "--re", f"^({exactly})$", "--", *tests),
        )
        if done.returncode not in _RAN:
            raise CannotRun(f"cargo-mutants ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        found = {}
        for kind, fate in _FATES.items():
            for name in (self._output / "mutants.out" / f"{kind}.txt").read_text(encoding="utf-8").splitlines():
                found[name] = fate
        if missing := set(names) - set(found):
            raise CannotRun(f"cargo-mutants did not run {', '.join(sorted(missing))}\n{done.stdout[-4000:]}")
        return found

    def _then(self, mutant: Mutant, tests: Sequence[str]) -> Fate:
        """What pytest makes of a mutant, with the agent that has it."""
        path = self._tree / mutant.file
        whole = path.read_bytes()
        try:
            self._ended(["patch", "--quiet", str(path)], 60, self._told[mutant]["diff"])
            status = self._ended([*_ALONE, sys.executable, "-I", "-m", "pytest", "-x", "-q", *tests], _THEN_S)
        finally:
            path.write_bytes(whole)
        if status not in {_PASSED, _FAILED, None}:
            raise CannotRun(f"pytest {' '.join(tests)} ended with {status}")
        return {_PASSED: Fate.SURVIVED, _FAILED: Fate.CAUGHT}.get(status, Fate.TIMED_OUT)  # type: ignore[arg-type]

    def _ended(self, command: Sequence[str], seconds: float, stdin: str = "") -> int | None:
        """The status of a command, or none where it does not end in time."""
        process = subprocess.Popen(
            command,
            cwd=self._tree,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None
        return process.returncode

    def _tell(self, *arguments: str) -> str:
        done = self._cargo_mutants(*arguments)
        if done.returncode != 0:
            raise CannotRun(f"cargo-mutants {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def _cargo_mutants(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*_ALONE, str(self._tool), "mutants", "--no-config", "--colors", "never", *arguments]
        folder = self._tree / "agent"
        return subprocess.run(
            command,
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )


def named(names: Sequence[str], told: Sequence[Mapping[str, Any]]) -> dict[Mutant, tuple[str, Mapping[str, Any]]]:
    """Mutants as cargo-mutants lists them, in words and as JSON, under names without lines and columns.

    Those that lie outside functions are left out, as are those that change nothing.
    """
    seen: Counter[str] = Counter()
    found = {}
    for name, one in zip(names, told, strict=True):
        if one["function"] is None or name.endswith(_JOINED) or f"{_JOINED} in " in name:
            continue
        function = one["function"]["function_name"]
        _, _, _, what = name.split(":", 3)
        what = what.strip().removesuffix(f" in {function}")
        seen[f"{one['file']} {function} {what}"] += 1
        count = seen[f"{one['file']} {function} {what}"]
        mutant = Mutant(f"agent/{one['file']}", function, what if count == 1 else f"{what} ({count})")
        found[mutant] = (name, one)
    return found


def environment() -> dict[str, str]:
    """What cargo must see for a static agent, as in ./check; without what debuggers read, which takes long to link."""
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = next(line.removeprefix("host: ") for line in told.splitlines() if line.startswith("host: "))
    flags = {"RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"}
    given = {name: value for name, value in os.environ.items() if name not in flags}
    return {**given, "CARGO_BUILD_TARGET": host, "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_TEST_DEBUG": "0"}


def refresh(root: Path, tree: Path) -> None:
    """Make a copy of the files of the project; what is the same stays untouched, so that cargo builds little anew."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    wanted = {name for name in listed if name and (root / name).is_file()}
    for folder, folders, names in os.walk(tree):
        folders[:] = [name for name in folders if Path(folder) / name != tree / "agent" / "target"]
        for name in names:
            path = Path(folder) / name
            if str(path.relative_to(tree)) not in wanted:
                path.unlink()
    for name in wanted:
        copy = tree / name
        if not copy.is_file() or not filecmp.cmp(root / name, copy, shallow=False):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, copy)
