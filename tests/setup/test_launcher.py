# SPDX-License-Identifier: Apache-2.0
"""The launcher sets its checkout up once, survives interrupts and company, and is silent when nothing is to do."""

import contextlib
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fake_checkout import FakeCheckout


@pytest.fixture
def checkout(tmp_path: Path) -> FakeCheckout:
    return FakeCheckout.make(tmp_path)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline, "it never was so"
        time.sleep(0.01)


def wait_for(checkout: FakeCheckout, line: str) -> None:
    wait_until(lambda: line in checkout.log.read_text())


def wait_until_asleep(group: int) -> None:
    """Until a `sleep` runs in the process group: a signal sent earlier may meet a shell between fork and exec."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
                if name == "sleep" and int(rest.split()[2]) == group:
                    return
        time.sleep(0.01)
    raise AssertionError(f"nothing sleeps in group {group}")


def environments(checkout: FakeCheckout) -> list[Path]:
    return list((checkout.root / ".setup").glob("venv.*"))


def kinds(done: list[str]) -> list[str]:
    """What was done, in alphabetical order: the environment and the agent are made at once."""
    return sorted(line.split()[0] for line in done if "=" not in line.split()[0])


@pytest.mark.parametrize("shell", ["dash", "busybox sh", "bash --posix"])
def test_first_start_sets_up_and_later_ones_are_silent(checkout: FakeCheckout, shell: str) -> None:
    command: tuple[str | Path, ...] = (*shell.split(), checkout.root / "ktrial", "--version")
    first = checkout.start(*command)
    assert first.returncode == 0, first.stderr
    assert kinds(checkout.done()) == ["cargo", "pip", "venv"]
    assert "ktrial: building the agent" in first.stderr
    later = checkout.start(*command)
    assert (later.returncode, later.stderr, later.stdout) == (0, "", first.stdout)
    assert checkout.done() == []


def test_the_agent_is_built_locked_for_the_host_and_without_the_users_flags(checkout: FakeCheckout) -> None:
    checkout.start(RUSTFLAGS="-C target-cpu=native")
    done = checkout.done()
    (build,) = [line for line in done if line.startswith("cargo")]
    assert "--release --locked" in build
    assert "CARGO_BUILD_TARGET=x86_64-unknown-linux-gnu" in done
    assert not [line for line in done if line.startswith("RUSTFLAGS")]
    assert os.access(checkout.root / ".setup/bin/ktrial-agent", os.X_OK)


def test_arguments_pass_unchanged_and_through_a_link(checkout: FakeCheckout, tmp_path: Path) -> None:
    link = tmp_path / "a link"
    link.symlink_to(checkout.root / "ktrial")
    started = checkout.start(link, "plan", "a b", "", "*", "vm.swappiness=10")
    lines = started.stdout.splitlines()
    assert lines[0] == str(checkout.root / ".venv/bin/python")
    assert lines[-5:] == [f"argument:{text}" for text in ("plan", "a b", "", "*", "vm.swappiness=10")]
    assert "argument:-I" in lines


def test_two_at_once_set_up_once_and_the_second_says_that_it_waits(checkout: FakeCheckout) -> None:
    first = checkout.begin(SLOW_PIP="2.5")
    wait_for(checkout, "pip")
    second = checkout.start()
    first_err = first.communicate(timeout=60)[1]
    assert (first.returncode, second.returncode) == (0, 0), (first_err, second.stderr)
    assert second.stderr.startswith("ktrial: waiting: another start of ktrial has been setting up this checkout since ")
    assert "making the Python environment with " in second.stderr.splitlines()[0]
    assert "waiting" not in first_err
    assert kinds(checkout.done()) == ["cargo", "pip", "venv"]


def test_a_start_that_somebody_ended_goes_on_and_the_next_one_says_what_it_waits_for(checkout: FakeCheckout) -> None:
    begun = checkout.begin(SLOW_CARGO="3")
    wait_for(checkout, "cargo")
    wait_until((checkout.root / ".venv/ktrial-stamp").exists)
    begun.kill()
    again = checkout.start()
    begun.communicate(timeout=20)
    assert again.returncode == 0, again.stderr
    first, second, *_ = again.stderr.splitlines()
    assert re.fullmatch(r"ktrial: waiting: .* since \d\d:\d\d:\d\d \(.*building the agent \(release mode\).*\)", first)
    assert second.endswith("its set-up continues in the background, and this start uses the result")
    assert kinds(checkout.done()) == ["cargo", "pip", "venv"], "nothing is made twice"


def test_a_lock_that_cannot_be_taken_is_not_waited_for(checkout: FakeCheckout) -> None:
    checkout.add_tool("flock", "#!/bin/sh\necho 'flock: 9: No locks available' >&2\nexit 71\n")
    started = checkout.start()
    assert started.returncode == 1
    assert "flock: 9: No locks available\nktrial: cannot lock " in started.stderr
    assert "waiting" not in started.stderr


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", ["pip", "cargo"])
def test_an_interrupted_set_up_is_gone_on_with(checkout: FakeCheckout, step: str, sent: signal.Signals) -> None:
    begun = checkout.begin(SLOW_PIP="60" if step == "pip" else "0", SLOW_CARGO="60")
    wait_for(checkout, step)
    wait_for(checkout, "cargo")
    if step == "cargo":
        wait_until((checkout.root / ".venv/ktrial-stamp").exists)
    wait_until_asleep(begun.pid)
    os.killpg(begun.pid, sent)
    begun.communicate(timeout=20)
    assert begun.returncode != 0
    assert not (checkout.root / ".setup/stamp").exists()
    checkout.done()
    again = checkout.start()
    assert again.returncode == 0, again.stderr
    assert kinds(checkout.done()) == (["cargo", "pip", "venv"] if step == "pip" else ["cargo"])
    assert len(environments(checkout)) == 1
    assert checkout.start().stderr == ""


def test_a_changed_agent_is_built_anew_and_nothing_else(checkout: FakeCheckout) -> None:
    checkout.start()
    checkout.done()
    with (checkout.root / "agent/src/main.rs").open("a") as file:
        file.write("// changed\n")
    assert "building the agent" in checkout.start().stderr
    assert kinds(checkout.done()) == ["cargo"]


def test_a_removed_source_file_is_noticed(checkout: FakeCheckout) -> None:
    extra = checkout.root / "agent/src/extra.rs"
    extra.write_text("// extra\n")
    checkout.start()
    checkout.done()
    extra.unlink()
    checkout.start()
    assert kinds(checkout.done()) == ["cargo"]


def test_a_touched_file_with_the_same_content_costs_no_build(checkout: FakeCheckout) -> None:
    checkout.start()
    checkout.done()
    (checkout.root / "agent/src/main.rs").touch()
    touched = checkout.start()
    assert (touched.returncode, touched.stderr) == (0, "")
    assert checkout.done() == []


def test_a_library_that_cannot_be_preloaded_changes_nothing(checkout: FakeCheckout) -> None:
    checkout.start()
    checkout.done()
    later = checkout.start(
        "timeout", "20", checkout.root / "ktrial", "--version", LD_PRELOAD="/nowhere/libgamemodeauto.so.0"
    )
    assert "cannot be preloaded" in later.stderr
    assert (later.returncode, checkout.done()) == (0, [])


def test_a_file_dated_in_the_future_does_not_keep_the_set_up_busy(checkout: FakeCheckout) -> None:
    tomorrow = time.time() + 86400
    os.utime(checkout.root / "agent/src/main.rs", (tomorrow, tomorrow))
    for done in (["cargo", "pip", "venv"], []):
        started = checkout.start("timeout", "20", checkout.root / "ktrial", "--version")
        assert started.returncode == 0
        assert kinds(checkout.done()) == done


def test_a_missing_input_is_noticed(checkout: FakeCheckout) -> None:
    checkout.start()
    (checkout.root / "agent/Cargo.lock").unlink()
    assert checkout.start("timeout", "20", checkout.root / "ktrial", "--version").stderr != ""


def test_a_changed_lock_makes_another_environment_and_takes_the_old_one_away(checkout: FakeCheckout) -> None:
    checkout.start()
    checkout.done()
    (old,) = environments(checkout)
    with (checkout.root / "setup/requirements.lock").open("a") as file:
        file.write("# changed\n")
    checkout.start()
    assert kinds(checkout.done()) == ["pip", "venv"]
    (new,) = environments(checkout)
    assert new != old
    assert (checkout.root / ".venv").resolve() == new


def test_a_moved_checkout_is_set_up_anew(checkout: FakeCheckout, tmp_path: Path) -> None:
    checkout.start()
    checkout.done()
    moved = tmp_path / "elsewhere"
    shutil.move(checkout.root, moved)
    started = checkout.start(moved / "ktrial", "--version")
    assert started.returncode == 0, started.stderr
    assert started.stdout.splitlines()[0] == str(moved / ".venv/bin/python")
    assert kinds(checkout.done()) == ["cargo", "pip", "venv"]


def test_an_environment_that_somebody_else_made_is_left_alone(checkout: FakeCheckout) -> None:
    (checkout.root / ".venv").mkdir()
    (checkout.root / ".venv/mine").touch()
    started = checkout.start()
    assert started.returncode == 1
    assert "move it away" in started.stderr
    assert (checkout.root / ".venv/mine").exists()


def test_a_failing_build_ends_the_start_and_leaves_no_agent(checkout: FakeCheckout) -> None:
    checkout.add_tool("cargo", "#!/bin/sh\necho 'error: no such crate' >&2\nexit 101\n")
    started = checkout.start()
    assert started.returncode == 1
    assert "error: no such crate" in started.stderr
    assert "the agent did not build" in started.stderr
    assert started.stdout == ""
    assert not (checkout.root / ".setup/bin/ktrial-agent").exists()


def test_the_time_of_the_launcher_itself_is_printed(checkout: FakeCheckout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.start()
    python = checkout.root / ".venv/bin/python"
    spent: dict[str, list[float]] = {"launcher": [], "python": []}
    for _ in range(15):
        for name, command in (
            ("launcher", (checkout.root / "ktrial", "x")),
            ("python", (python, "-I", checkout.root / "src/ktrial/__main__.py", "x")),
        ):
            begin = time.perf_counter()
            subprocess.run(command, env=checkout.environment, stdout=subprocess.DEVNULL, check=True)
            spent[name].append((time.perf_counter() - begin) * 1000)
    own = statistics.median(spent["launcher"]) - statistics.median(spent["python"])
    with capsys.disabled():
        print(f"\nlauncher, nothing to do: {own:.1f} ms of its own")  # noqa: T201 - the number is the point
