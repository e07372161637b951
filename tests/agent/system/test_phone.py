# SPDX-License-Identifier: Apache-2.0
"""Every verb once on a phone, through the real adb: values of the phone's own network, and nothing stays there."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ktrial.bench.adapters
from tests.support.kept import raw, records
from tests.support.phone import Phone, copy_program, phone
from tests.support.terminal import eventually

KNOB, FILE = "net.core.somaxconn", "/proc/sys/net/core/somaxconn"
#: The value of the phone's network; this machine has another one.
THERE = "4000"


@pytest.fixture(scope="module")
def pixel() -> Iterator[Phone]:
    with phone(more=f"echo {THERE} > {FILE}") as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_stays(pixel: Phone) -> Iterator[None]:
    """The phone is as it was: its values, its files, and no process."""
    before = pixel.left()
    yield
    assert eventually(lambda: not pixel.processes(), 10), pixel.processes()
    assert pixel.read(FILE) == THERE
    assert pixel.left() == before


def printed(pixel: Phone, *words: str, status: int = 0) -> str:
    done = pixel.ktrial(*words)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def document(pixel: Phone, *words: str, status: int = 0) -> Any:
    at = words.index("--") if "--" in words else len(words)
    # Documents of one line come before the result.
    out = printed(pixel, *words[:at], "--json", *words[at:], status=status)
    return json.loads(out[out.index("{\n") :] if "{\n" in out else out.splitlines()[-1])


def stored(pixel: Phone, *words: str) -> str:
    """What a command without --host prints: it reads the results that are stored here."""
    argv = [word for word in pixel.command(*words) if word not in {"--host", "adb"}]
    return subprocess.run(argv, env=pixel.environment(), capture_output=True, text=True, check=True).stdout


def test_facts_and_the_doctor_are_those_of_the_phone(pixel: Phone) -> None:
    facts = document(pixel, "facts")["facts"]
    assert (facts["os.android"]["value"], facts["os.name"]["value"]) == (True, "Android 14")
    assert (facts["phone.root"]["value"], facts["phone.screen"]["value"]) == ("magisk", "on")
    assert (facts["battery.level"]["value"], facts["phone.skin_temperature"]["value"]) == (85, 31.4)
    assert "Pixel 6, Google GS101" in printed(pixel, "doctor")


def test_modules_that_only_root_may_list_are_listed_through_su(pixel: Phone) -> None:
    folder = pixel.root / "data/adb/modules"
    for name, files in {"ktweak": ("module.prop",), "off": ("module.prop", "disable"), "empty": ()}.items():
        (folder / name).mkdir()
        for file in files:
            (folder / name / file).touch()
    try:
        before = document(pixel, "facts", "phone")["facts"]["phone.modules"]
        assert "`facts phone.modules` asks su" in before["unknown"]
        assert document(pixel, "facts", "phone.modules")["facts"]["phone.modules"]["value"] == ["ktweak"]
        refused = document(pixel, "--no-sudo", "facts", "phone.modules")["facts"]["phone.modules"]
        assert "--no-sudo forbids asking" in refused["unknown"]
    finally:
        for made in ("ktweak", "off", "empty"):
            shutil.rmtree(folder / made)


def test_what_is_applied_is_in_force_there_until_it_is_reverted(pixel: Phone) -> None:
    (step,) = document(pixel, "plan", f"{KNOB}=512")["plan"]["steps"]
    assert step["expect"].strip() == THERE
    assert document(pixel, "apply", f"{KNOB}=512")["state"] == "applied"
    try:
        assert pixel.read(FILE) == "512"
        (applied,) = document(pixel, "status")["transactions"]
        assert (applied["state"], applied["steps"][0]["old"].strip()) == ("applied", THERE)
        ((step,),) = [one["steps"] for one in document(pixel, "verify")["transactions"]]
        assert (step["outcome"], step["now"].strip()) == ("in-force", "512")
        assert document(pixel, "why", KNOB, "--watch", "300ms")["changes"] == []
    finally:
        (reverted,) = document(pixel, "revert")["transactions"]
    assert reverted["steps"][0]["outcome"] == "restored"


def test_a_deadline_there_does_not_need_the_cable(pixel: Phone) -> None:
    said = pixel.ktrial("apply", f"{KNOB}=512", "--for", "2s")
    assert said.returncode == 0, said.stderr
    pixel.way.cut()
    assert eventually(lambda: pixel.read(FILE) == THERE, 10)
    assert pixel.plug_in() == "device"


def test_a_command_is_measured_there_and_stored_here(pixel: Phone) -> None:
    script = f"pwd && cat {FILE} && hostname && echo $HOME $MODE && id -un"
    bench = document(pixel, "bench", "-n", "2", "--env", "MODE=fast", "--", "sh", "-c", script)
    assert (bench["complete"], bench["interrupted"]) == (1, False)
    runs = records(pixel.folder / "here", "state")
    outputs = [raw(pixel.folder / "here", one["raw"]["stdout"], "state").decode() for one in runs[-2:]]
    home = "/data/local/tmp"
    assert outputs == [f"{home}\n{THERE}\nphone\n{home} fast\nshell\n"] * 2


def test_a_run_that_begins_with_the_screen_off_is_refused(pixel: Phone) -> None:
    power = pixel.root / "system/dumpsys/power"
    before = power.read_text()
    off = "echo mWakefulness=Asleep > /data/local/tmp/power"
    pixel.run("ln", "-sfn", "/data/local/tmp/power", str(power))
    (pixel.home / "power").write_text(before)
    (pixel.home / "power").chmod(0o666)
    try:
        done = pixel.ktrial("bench", "-n", "2", "--", "sh", "-c", off)
    finally:
        (pixel.home / "power").unlink()
        power.unlink()
        power.write_text(before)
    assert "screen differs: on in first run, off in this run" in done.stderr, done.stderr


def test_a_program_of_this_machine_is_copied_there_while_it_is_measured(pixel: Phone, tmp_path: Path) -> None:
    script = tmp_path / "own load"
    script.write_text("#!/system/bin/sh\necho $(cat /proc/sys/net/core/somaxconn) $1\n")
    bench = document(pixel, "bench", "-n", "1", "--", str(script), "x")
    assert bench["complete"] == 1
    (last,) = records(pixel.folder / "here", "state")[-1:]
    assert raw(pixel.folder / "here", last["raw"]["stdout"], "state").decode() == f"{THERE} x\n"
    assert "which phones lack" in pixel.ktrial("bench", "-n", "1", "--", "/usr/bin/env").stderr


def test_frames_of_an_app_are_measured_there(pixel: Phone) -> None:
    cases = Path(ktrial.bench.adapters.__file__).parent / "gfxinfo/cases"
    printed_there = (cases / "14-made/stdout").read_bytes().removesuffix(b"=ktrial end\n")
    (pixel.root / "system/dumpsys/gfxinfo").write_bytes(printed_there)
    words = ("-p", "package=com.android.settings", "-p", "seconds=1")
    bench = document(pixel, "bench", "gfxinfo", "-n", "1", *words)
    found = {one["outcome"]: one["median"] for one in bench["summaries"]}
    wanted = json.loads((cases / "14-made/expected.json").read_text())["measurements"]
    assert found == pytest.approx(wanted)


def test_the_suite_of_ktweak_runs_with_programs_from_a_folder_of_this_machine(pixel: Phone, tmp_path: Path) -> None:
    """Debian's hackbench is not static: its libraries are on this phone. SynthMark's output is recorded."""
    copy_program("/usr/bin/hackbench", pixel.root)
    folder = tmp_path / "static"
    folder.mkdir()
    cases = Path(ktrial.bench.adapters.__file__).parent / "synthmark/cases"
    printed = "".join(
        f"-t{one[0]}) cat <<'END'\n{(cases / f'1.27-{one}/stdout').read_text()}END\n;;\n"
        for one in ("voicemark", "latencymark", "jittermark")
    )
    (folder / "synthmark").write_text(f"#!/system/bin/sh\ncase $1 in\n{printed}esac\n")
    try:
        (pixel.root / "system/bin/hackbench").rename(pixel.root / "system/lib/hackbench")
        (folder / "hackbench").write_text('#!/system/bin/sh\nexec /system/lib/hackbench "$@"\n')
        absent = pixel.ktrial("bench", "ktweak", "-n", "1")
        assert "put hackbench, built statically for the phone, into a folder and add `--tools FOLDER`" in absent.stderr
        words = ("--tools", str(folder), "-p", "hackbench-pipe-thread:loops=40")
        bench = document(pixel, "bench", "ktweak", "-n", "1", *words, status=1)
    finally:
        (pixel.root / "system/lib/hackbench").unlink()
    assert [one["benchmark"] for one in bench["holes"]] == ["perf-memcpy"]
    found = {one["outcome"]: one["median"] for one in bench["summaries"]}
    assert found["time"] > 0
    assert {"voices", "latency", "wakeup-mean"} <= set(found)
    (run,) = [one for one in records(pixel.folder / "here", "state") if one["benchmark"].startswith("hackbench")]
    digest = hashlib.sha256((folder / "hackbench").read_bytes()).hexdigest()[:16]
    assert run["argv"][0] == f"/data/local/tmp/ktrial/programs/{digest}/hackbench"
    assert "not a folder" in pixel.ktrial("bench", "ktweak", "--tools", "/dev/null").stderr


def test_a_locale_with_decimal_commas_on_both_sides_changes_no_number(pixel: Phone, tmp_path: Path) -> None:
    before = document(pixel, "facts", "phone", "battery")["facts"]
    made = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "de_DE.UTF-8")]
    assert subprocess.run(made, capture_output=True, check=False).returncode in {0, 1}  # 1 with a warning
    german = {"LC_ALL": "de_DE.UTF-8", "LOCPATH": str(tmp_path)}
    shown = subprocess.run(["/usr/bin/printf", "%.1f", "1,5"], env=german, capture_output=True, text=True, check=True)
    assert shown.stdout == "1,5"
    pixel.set(environment=german)
    try:
        told = pixel.ktrial("facts", "--json", "phone", "battery", more=german).stdout
        assert json.loads(told)["facts"] == before
        words = ("bench", "-n", "1", "--metric", "x:higher=is ([0-9.,]+)", "--", "sh", "-c", "echo it is 1,5")
        assert "expected a number such as 12.5, got '1,5'" in pixel.ktrial(*words, more=german).stderr
    finally:
        pixel.set(environment={})


def test_the_agents_own_load_is_measured_there(pixel: Phone) -> None:
    bench = document(pixel, "bench", "agent-lock", "-n", "1")
    assert {one["outcome"] for one in bench["summaries"]} >= {"event-rate", "event-p99"}


def test_a_program_is_watched_there_and_its_recording_is_here(pixel: Phone, tmp_path: Path) -> None:
    watched = document(pixel, "watch", "-o", str(tmp_path / "seen"), "--", "sleep", "0.5")
    assert watched["findings"] is not None
    assert stored(pixel, "diagnose", str(tmp_path / "seen"))


def test_a_trial_compares_settings_there(pixel: Phone) -> None:
    words = ("--no-profile", "--settle", "0s", "--budget", "7", "--", "sleep", "0.05")
    trial = document(pixel, "try", f"{KNOB}=512", *words)["comparison"]["trial"]
    assert trial["blocks"] == 7
    stored(pixel, "trial", "recheck", trial["trial"])


def test_what_a_phone_cannot_do_is_refused_with_another_way(pixel: Phone) -> None:
    done = pixel.ktrial("keep", f"{KNOB}=512", "-y")
    assert done.returncode == 2
    assert "--to magisk" in done.stderr
    done = pixel.ktrial("try", f"{KNOB}=512", "--unattended", "--no-profile", "--", "true")
    assert done.returncode == 4
    assert "trials on phones" in done.stderr


def test_androids_own_su_gives_root_too(pixel: Phone) -> None:
    (pixel.root / "su").write_text("aosp")
    try:
        assert document(pixel, "status")["transactions"] is not None
    finally:
        (pixel.root / "su").write_text("magisk")
