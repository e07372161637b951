# SPDX-License-Identifier: Apache-2.0
"""`ktrial try` and `ktrial trial` as root, on this machine's kernel, with loads that take no time."""

from __future__ import annotations

import io
import json
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktrial.cli.main import main
from ktrial.judge.model.log import BlockVoided, RunEnded, TrialEnd
from ktrial.trial.protocol.read import parse_trial_file
from tests.results.system.test_database import mounted
from tests.support.kept import raw, records, state
from tests.support.terminal import KTRIAL
from tests.support.tree import Ran, use_compiled_catalog
from tests.support.trial_process import (
    TrialProcess,
    Victims,
    check_nothing_is_lost,
    log_of,
    runs_in,
    trials_in,
    verdict_in,
    wait_until_blocks,
)

# All tests that change this machine's own knobs run one after the other, on one worker.
pytestmark = [pytest.mark.root, pytest.mark.usefixtures("real_machine")]
SWAPPINESS = Path("/proc/sys/vm/swappiness")
#: A number that is the knob's own value: what is planted is found, whatever the machine does meanwhile.
READS = ("--metric", "value_ms:lower=([0-9]+)", "--", "cat", str(SWAPPINESS))
#: The same whatever is set.
COPIUM = ("--metric", "value_ms:lower=([0-9]+)", "--", "echo", "60")
VALUE = ("--metric", "value_ms:lower=value ([0-9]+)")
#: A number between 100 and 355 that nobody can foresee.
NOISE = "echo $(( $(od -An -N1 -tu1 /dev/urandom) + 100 ))"
#: The same, of runs that take so long that a trial of nine blocks is not over within half a second.
SLOW_COPIUM = (*COPIUM[:3], "sh", "-c", "sleep 0.05; echo 60")
QUICK = ("--settle", "0s", "--no-profile")
STARTED: list[TrialProcess] = []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for the head; the knob is as it was at the end, whatever the test did."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    use_compiled_catalog(folder)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "KTRIAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    before = SWAPPINESS.read_text()
    SWAPPINESS.write_text("60\n")
    try:
        yield folder
    finally:
        while STARTED:
            STARTED.pop().end()
        run(folder, "revert", "--all")
        SWAPPINESS.write_text(before)


def options(home: Path) -> list[str]:
    return ["--machine-state", str(home / "journal")]


def run(home: Path, *argv: str) -> Ran:
    """One command; its journal lies in the home."""
    out, err = io.StringIO(), io.StringIO()
    return Ran(main([*options(home), *argv], out, err), out.getvalue(), err.getvalue())


def start(home: Path, *words: str) -> TrialProcess:
    trial = TrialProcess(options(home), words, home / "said")
    STARTED.append(trial)
    return trial


def is_as_before() -> bool:
    """Whether the knob is as found; the holder of a lease may need a moment."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if SWAPPINESS.read_text() == "60\n":
            return True
        time.sleep(0.02)
    return False


def judged(home: Path) -> dict[str, Any]:
    """The comparison of the newest trial."""
    shown: dict[str, Any] = run(home, "trial", "show", "--json").json
    return shown


def test_a_verdict_can_end_every_command_that_tells_one(home: Path) -> None:
    ran = run(home, "try", "vm.swappiness=90", *QUICK, "--fail-on", "worse,inconclusive", *READS)
    assert (ran.status, "1 verdict is worse: " in ran.err) == (3, True), ran.err
    name = trials_in(home)[0].trial
    for verb in (["trial", "show"], ["trial", "show", name, "--json"], ["trial", "resume", name], ["compare", name]):
        for verdict, status in (("worse", 3), ("better,different", 0), ("worse:1%", 3), ("worse:900%", 0)):
            ran = run(home, *verb, "--fail-on", verdict)
            assert (ran.status, "is ruled out for " in ran.err) == (status, verdict == "worse:900%"), (verb, ran.err)
        assert run(home, *verb).status == 0
    refused = run(home, "compare", name, "--margin", "5%", "--tiers")
    assert refused.status == 2
    assert (
        f"{name} is a trial: its protocol decides how it is judged\n  next: leave out --tiers, --margin" in refused.err
    )


def test_a_setting_ends_with_a_verdict_and_the_machine_is_as_before(home: Path) -> None:
    ran = run(home, "try", "vm.swappiness=10", *QUICK, *READS)
    assert ran.status == 0, ran.err
    assert verdict_in(home) == "better"
    assert SWAPPINESS.read_text() == "60\n"
    values = {(event.arm, event.measurements["cat.value"]) for event in runs_in(log_of(home))}
    assert values == {("control", 0.06), ("swappiness-10", 0.01)}
    assert not run(home, "status", "--json").json["transactions"] or all(
        one["state"] != "applied" for one in run(home, "status", "--json").json["transactions"]
    )
    assert run(home, "trial", "recheck").status == 0
    (change,) = [one for one in judged(home)["state_changes"] if one["name"] == "vm.swappiness"]
    assert (change["control_value"], change["arm_value"], change["declared"]) == ("60", "10", "arm swappiness-10")
    assert "better: swappiness-10" in run(home, "trial", "list").out


def test_a_setting_that_cannot_matter_is_equivalent_and_so_is_a_placebo(home: Path) -> None:
    ran = run(home, "try", "vm.swappiness=10", "--placebo", *QUICK, *COPIUM)
    assert ran.status == 0, ran.err
    told = run(home, "trial", "list", "--json").json["trials"][0]["verdicts"]
    assert told["swappiness-10"] == "equivalent"
    assert set(told) == {"swappiness-10", "placebo"}


def test_a_placebo_alone_is_a_trial(home: Path) -> None:
    ran = run(home, "try", "--placebo", *QUICK, *COPIUM)
    assert ran.status == 0, ran.err
    assert run(home, "trial", "list", "--json").json["trials"][0]["verdicts"] == {"placebo": "equivalent"}


def test_an_arm_of_the_environment(home: Path) -> None:
    command = ("--metric", "value_ms:lower=([0-9]+)", "--", "sh", "-c", "echo ${SPEED:-20}")
    ran = run(home, "try", "--env", "SPEED=10", *QUICK, *command)
    assert ran.status == 0, ran.err
    assert verdict_in(home) == "better"
    assert {one["environment"].get("SPEED") for one in records(home)} == {None, "10"}


def test_a_broken_guard_is_exit_status_3(home: Path) -> None:
    numbers = ("--metric", "value_ms:lower=^([0-9]+)", "--metric", "price_ms:lower=/([0-9]+)")
    command = ("--", "sh", "-c", "echo ${SPEED:-20}/${PRICE:-10}")
    named = ("--primary", "value", "--guard", "price=5%")
    held = run(home, "try", "--env", "SPEED=10", *named, *QUICK, *numbers, *command)
    assert held.status == 0, held.err
    broken = run(home, "try", "--env", "SPEED=10", "--env", "PRICE=20", *named, *QUICK, *numbers, *command)
    assert broken.status == 3, broken.err
    assert "guard broken: " in broken.err
    assert "saved as" in broken.err


def test_values_of_a_list_are_an_arm_each(home: Path) -> None:
    ran = run(home, "try", "vm.swappiness=10,100", *QUICK, *READS)
    assert ran.status == 0, ran.err
    told = run(home, "trial", "list", "--json").json["trials"][0]["verdicts"]
    assert told == {"swappiness-10": "better", "swappiness-100": "worse"}


def test_a_short_trial_begins_at_once_and_a_noise_profile_serves_those_after_it(home: Path) -> None:
    words = ("try", "vm.swappiness=10", "--settle", "0s", *READS)
    first = run(home, *words)
    assert first.status == 0, first.err
    assert "noise profile:" not in first.err
    assert len(run(home, "runs", "--json").json["sessions"]) == 1
    noise = run(home, "noise", *READS)
    assert noise.status == 0, noise.err
    assert "10 blocks in which nothing changes" in " ".join(noise.err.split())
    (profile,) = run(home, "noise", "--json").json["profiles"]
    assert profile["stale"] == []
    ran = run(home, *words)
    assert "in 9 of 10 trials" in " ".join(ran.err.split())
    assert len(run(home, "runs", "--json").json["sessions"]) == 3, "the profile is used"


def test_noise_that_hides_what_is_looked_for_is_told_before_the_trial(home: Path) -> None:
    command = (*READS[:2], "--", "sh", "-c", NOISE)
    words = ("try", "--env", "A=1", "--settle", "0s", "--budget", "9", *command)
    assert run(home, "noise", *command).status == 0
    ran = run(home, *words)
    assert ran.status == 4, ran.err
    assert "lost in the noise" in " ".join(ran.err.split())
    assert not trials_in(home)
    ran = run(home, words[0], "--anyway", *words[1:])
    assert ran.status == 0, ran.err
    assert len(trials_in(home)) == 1


def test_a_setting_that_is_in_force_already_is_a_placebo(home: Path) -> None:
    ran = run(home, "try", "vm.swappiness=60", *QUICK, *COPIUM)
    assert ran.status == 0, ran.err
    assert "is in force already" in ran.err


def test_a_benchmark_that_fails_only_in_one_arm_is_worse(home: Path) -> None:
    command = ("--metric", "value_ms:lower=([0-9]+)", "--", "sh", "-c", f"grep 60 {SWAPPINESS}")
    ran = run(home, "try", "vm.swappiness=10", *QUICK, *command)
    assert ran.status == 0, ran.err
    assert verdict_in(home) == "worse"
    assert "run discarded: grep" in ran.err.replace("sh: ", "grep ") or "run discarded" in ran.err


def test_a_knob_changed_under_our_feet_is_named_and_nothing_is_compared(home: Path) -> None:
    script = f"cat {SWAPPINESS}; echo 33 > {SWAPPINESS}"
    ran = run(home, "try", "vm.page-cluster=1", "vm.swappiness=10", *QUICK, *READS[:2], "--", "sh", "-c", script)
    # The benchmark itself is who does it: in the first run, which warms up.
    assert ran.status == 1
    assert str(SWAPPINESS) in ran.err
    assert "'33' instead of '60'" in ran.err
    SWAPPINESS.write_text("60\n")
    once = f"cat {SWAPPINESS}; test -e {home}/calm || {{ test -e {home}/second && echo 33 > {SWAPPINESS}; }}; true"
    trial = start(home, "try", "vm.swappiness=10", *QUICK, *READS[:2], "--", "sh", "-c", once)
    wait_until_blocks(home, 3)
    (home / "second").touch()
    assert trial.wait() == 0, trial.said
    voids = [event for event in log_of(home) if isinstance(event, BlockVoided)]
    assert len(voids) == 2
    assert all(void.cause == "knob" and str(SWAPPINESS) in void.reason for void in voids)
    assert verdict_in(home) == "not comparable"
    assert f"vm.swappiness ({SWAPPINESS}) reads '33' instead of '60'" in " ".join(trial.said.split())
    assert SWAPPINESS.read_text() == "33\n", "what others wrote is theirs"


@pytest.mark.parametrize("victims", ["head", "agent", "both"])
def test_killed_at_a_random_moment_it_is_resumed_and_nothing_is_lost(home: Path, victims: Victims) -> None:
    trial = start(home, "try", "vm.swappiness=10", "--budget", "9", *QUICK, *SLOW_COPIUM)
    wait_until_blocks(home, 2)
    time.sleep(random.Random(victims).random() * 0.4)
    trial.kill(victims)
    status = trial.wait()
    assert is_as_before()
    if victims == "agent":
        assert status == 1
        assert f"continue with `ktrial trial resume {trials_in(home)[0].trial}`" in trial.said
    resumed = run(home, "trial", "resume")
    assert resumed.status == 0, resumed.err
    assert verdict_in(home) == "equivalent"
    assert is_as_before()
    check_nothing_is_lost(home)
    assert run(home, "trial", "recheck").status == 0


def test_ctrl_c_puts_everything_back_and_says_how_to_go_on(home: Path) -> None:
    trial = start(home, "try", "vm.swappiness=10", *QUICK, *COPIUM)
    wait_until_blocks(home, 3)
    trial.process.send_signal(2)
    assert trial.wait() == 130
    assert SWAPPINESS.read_text() == "60\n"
    assert f"continue with `ktrial trial resume {trials_in(home)[0].trial}`" in trial.said
    assert ", not over" in run(home, "trial", "list").out
    assert run(home, "trial", "resume").status == 0
    check_nothing_is_lost(home)


def test_a_machine_that_changed_meanwhile_is_no_longer_the_control(home: Path) -> None:
    trial = start(home, "try", "vm.swappiness=10", *QUICK, *COPIUM)
    wait_until_blocks(home, 2)
    trial.process.send_signal(2)
    trial.wait()
    SWAPPINESS.write_text("30\n")
    resumed = run(home, "trial", "resume")
    assert resumed.status == 4
    assert "vm.swappiness was 60" in resumed.err


def test_head_and_root_agent_are_killed_last_and_the_benchmark_is_not(home: Path) -> None:
    before = int(Path("/proc/self/oom_score_adj").read_text())
    script = f"echo score $(cat /proc/self/oom_score_adj); sleep 0.2; echo value $(cat {SWAPPINESS})"
    trial = start(home, "try", "vm.swappiness=10", *QUICK, *VALUE, "--", "sh", "-c", script)
    wait_until_blocks(home, 1)

    def score(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    (agent,) = trial.root_agents()
    found = (score(trial.process.pid), score(agent))
    # Without CAP_SYS_RESOURCE, as in most containers, nobody is protected, and what is measured goes first.
    may_protect = bool(int(Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0], 16) >> 24 & 1)
    assert found == ((-900, -900) if may_protect else (before, before))
    wanted = before if may_protect else max(before, 300)
    trial.process.send_signal(2)
    assert trial.wait() == 130
    done = [one for one in records(home) if one["failure"] is None]
    assert {raw(home, one["raw"]["stdout"]).splitlines()[0] for one in done} == {f"score {wanted}".encode()}


def test_two_trials_at_once_are_refused(home: Path) -> None:
    trial = start(home, "try", "vm.swappiness=10", *QUICK, *COPIUM)
    wait_until_blocks(home, 1)
    ran = subprocess.run(
        [*KTRIAL, *options(home), "try", "--placebo", *QUICK, *COPIUM],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ran.returncode == 1
    assert f"another trial runs on this machine: process {trial.process.pid} of root" in " ".join(ran.stderr.split())
    trial.process.send_signal(2)
    trial.wait()


def protocol(home: Path, text: str) -> str:
    path = home / "trial.toml"
    path.write_text(text)
    return str(path)


FILE = """name = "own"
command = ["cat", "/proc/sys/vm/swappiness"]
metrics = ["value_ms:lower=([0-9]+)"]

[design]
settle = "0s"
seed = 7

[arms.control]

[arms.low]
set = { "vm.swappiness" = 10 }
"""


def test_an_edited_protocol_is_another_trial_and_the_same_one_again_too(home: Path) -> None:
    assert run(home, "trial", "run", "--no-profile", protocol(home, FILE)).status == 0
    assert run(home, "trial", "run", "--no-profile", protocol(home, FILE)).status == 0
    assert run(home, "trial", "run", "--no-profile", protocol(home, FILE.replace("= 10", "= 20"))).status == 0
    third, second, first = trials_in(home)
    assert first.protocol_sha256 == second.protocol_sha256 != third.protocol_sha256
    assert len({one.session for one in (first, second, third)}) == 3
    named = {one["trial"]["protocol_sha256"] for one in records(home)}
    assert named == {first.protocol_sha256, third.protocol_sha256}
    shown = run(home, "trial", "show", first.trial, "--json").json
    assert shown["arms"][0]["runs"] == len(runs_in(log_of(home, 2))) / 2
    for one in (first, second, third):
        assert run(home, "trial", "recheck", one.trial).status == 0


def test_limits_that_are_passed_end_the_trial(home: Path) -> None:
    file = protocol(home, f'{FILE}\n[limits]\nmemory_pressure = "0.000001%"\n')
    fills = "dd if=/dev/zero of=/dev/null bs=1M count=1 2>/dev/null"
    ran = run(home, "trial", "run", "--no-profile", file)
    # A machine that never waits for memory has no reason to end it.
    assert ran.status in {0, 3}, f"{fills}: {ran.err}"
    if ran.status == 3:
        assert "all tasks waited for memory" in ran.err
        ended = [event for event in log_of(home) if isinstance(event, TrialEnd)]
        assert ended[0].reason.startswith("stopped: ")
    assert SWAPPINESS.read_text() == "60\n"


def test_a_limit_that_cannot_be_watched_is_refused(home: Path) -> None:
    ran = run(home, "trial", "run", "--no-profile", protocol(home, f'{FILE}\n[limits]\ntemperature = "1C"\n'))
    assert ran.status in {3, 4}
    assert "temperature" in ran.err
    assert SWAPPINESS.read_text() == "60\n"


def test_an_extension_must_have_been_declared(home: Path) -> None:
    noisy = ("--metric", "value_ms:lower=([0-9]+)", "--", "sh", "-c", NOISE)
    assert run(home, "try", "vm.swappiness=10", "--budget", "quick", *QUICK, *noisy).status == 0
    refused = run(home, "trial", "extend", "--blocks", "30")
    assert refused.status in {2, 4}
    # The number of the run decides, and the seed the order: by chance one of twenty such trials finds something.
    counter = home / "runs"
    script = f"echo >>{counter}; n=$(wc -l <{counter}); echo $(( (n * 7919 + n * n * 1047) % 251 + 100 ))"
    text = FILE.replace('["cat", "/proc/sys/vm/swappiness"]', f'["sh", "-c", "{script}"]')
    text = text.replace("[design]", "[design]\nextend = true\ncap = 9")
    assert run(home, "trial", "run", "--no-profile", protocol(home, text)).status == 0
    assert verdict_in(home) == "inconclusive"
    extended = run(home, "trial", "extend", "--blocks", "12")
    assert extended.status == 0, extended.err
    assert len({event.block for event in runs_in(log_of(home))}) == 12
    assert run(home, "trial", "recheck").status == 0


def test_a_full_disk_ends_the_trial_puts_back_and_keeps_what_was_recorded(home: Path) -> None:
    with mounted(home / "small", "size=1500k") as folder:
        store = ("--store", str(folder / "results.db"))
        script = f"echo value $(cat {SWAPPINESS}); head -c 120000 /dev/urandom | base64 >&2"
        out, err = io.StringIO(), io.StringIO()
        words = ["try", "vm.swappiness=10", *QUICK, *VALUE, "--", "sh", "-c", script]
        status = main([*options(home), *store, *words], out, err)
        assert status == 1
        assert "cannot write" in err.getvalue()
        assert "full" in err.getvalue()
        assert SWAPPINESS.read_text() == "60\n"
        listed = io.StringIO()
        main([*store, "trial", "list", "--json"], listed, io.StringIO())
        assert json.loads(listed.getvalue())["trials"][0]["ended"] is None


@pytest.mark.parametrize(
    "words, status, said",
    [
        (("vm.swappiness=10", "--primary", "speed", *QUICK, *READS), 2, "use one of: cat.value"),
        (("vm.swapiness=10", *READS), 2, "did you mean vm.swappiness"),
        (("vm.swappiness=999", *READS), 2, "vm.swappiness"),
        (("kernel.sched_latency_ns=1000000", *READS), 2, "sched"),
        (("vm.swappiness=10", "--time", "1ms", *QUICK, *READS), 2, "is not enough for one block"),
        (("vm.swappiness=10", "--budget", "3", *QUICK, *READS), 2, "too few blocks for any verdict"),
        (
            ("vm.swappiness=10", "--metric", "value_ms:lower=x([0-9]+)", *QUICK, "--", "echo", "1"),
            1,
            "failed in a warm-up run of control",
        ),
        (("vm.swappiness=10", *QUICK, *READS[:2], "--", "no-such-program"), 2, "no-such-program"),
    ],
)
def test_what_cannot_be_tried_is_said_before_anything_changes(
    home: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    ran = run(home, "try", *words)
    assert (ran.status, said in ran.err) == (status, True), ran.err
    assert "next:" in ran.err
    assert SWAPPINESS.read_text() == "60\n"


@pytest.mark.parametrize(
    "words, status, said",
    [
        (("vm.swappiness=10", "--primary", "speed", *READS), 2, "use one of: cat.value"),
        (("vm.swappiness=10", "--guard", "speed=5%", *READS), 2, "use one of: cat.value"),
        (("kernel.sched_latency_ns=1000000", *READS), 2, "sched"),
        (("net.ipv4.tcp_syncookies=0", *READS), 4, "--yes-dangerous"),
        (("vm.swappiness=10", *READS[:2], "--", "no-such-program"), 2, "no-such-program"),
        (("vm.swappiness=10", *READS), 0, ""),
    ],
)
def test_a_dry_run_prints_the_protocol_and_says_what_it_would_be_refused_for(
    home: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    ran = run(home, "try", words[0], "--dry-run", *words[1:])
    assert (ran.status, said in ran.err) == (status, True), ran.err
    assert parse_trial_file(ran.out.encode(), "printed").command == words[words.index("--") + 1 :]
    assert not (state(home) / "results.db").exists()
    assert SWAPPINESS.read_text() == "60\n"


def test_a_dangerous_setting_needs_consent(home: Path) -> None:
    refused = run(home, "try", "net.ipv4.tcp_syncookies=0", *QUICK, *COPIUM)
    assert refused.status == 4
    assert "--yes-dangerous" in refused.err
    assert not (state(home) / "results.db").exists() or trials_in(home) == []
    before = Path("/proc/sys/net/ipv4/tcp_syncookies").read_text()
    allowed = run(home, "try", "net.ipv4.tcp_syncookies=0", "--yes-dangerous", "--budget", "9", *QUICK, *COPIUM)
    assert allowed.status == 0, allowed.err
    assert Path("/proc/sys/net/ipv4/tcp_syncookies").read_text() == before


@pytest.mark.parametrize(
    "text, said",
    [
        (FILE.replace("seed = 7", "sed = 7"), "sed"),
        (FILE + '\n[arms.again]\nset = { "vm.swappiness" = 10 }\n', "are the same"),
        (FILE + '\n[gates]\nno_such = "1"\n', "no_such"),
        (FILE + '\n[limits]\nheat = "1"\n', "heat"),
    ],
)
def test_a_protocol_that_cannot_be_read_is_told_with_its_file(home: Path, text: str, said: str) -> None:
    ran = run(home, "trial", "run", protocol(home, text))
    assert ran.status == 2
    assert f"{home}/trial.toml" in ran.err
    assert said in ran.err


def test_a_gate_that_never_passes_ends_with_the_limit_and_what_was_seen(home: Path) -> None:
    text = FILE + '\n[gates]\ndisk = { refuse = "0.0001%" }\n'
    ran = run(home, "trial", "run", "--no-profile", protocol(home, text))
    assert ran.status == 0, ran.err
    assert verdict_in(home) == "not comparable"
    assert "limit 0.0001 %" in ran.err
    voids = [event for event in log_of(home) if isinstance(event, BlockVoided)]
    assert {void.cause for void in voids} == {"reading"}
    assert len(voids) < 10
    assert not any(isinstance(event, RunEnded) and event.block is not None for event in log_of(home))


def test_a_setting_by_which_the_command_hangs_costs_its_limit_and_no_more(home: Path) -> None:
    script = f"[ $(cat {SWAPPINESS}) = 10 ] && exec sleep 600; echo"
    ran = run(home, "try", "vm.swappiness=10", *QUICK, "--limit", "0.2s", "--", "sh", "-c", script)
    assert ran.status == 0, ran.err
    assert verdict_in(home) == "worse"
    assert "its runs fail" in ran.out
    assert SWAPPINESS.read_text() == "60\n"


def test_machine_roots_are_no_place_for_trials(home: Path) -> None:
    folder = home / "root"
    folder.mkdir()
    ran = run(home, "--machine-root", str(folder), "try", "--placebo", *COPIUM)
    assert ran.status == 4
    assert "trials run on machines, not in folders" in ran.err
    assert list(folder.iterdir()) == []
