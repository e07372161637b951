# SPDX-License-Identifier: Apache-2.0
"""What a module for phones holds: every tweak of KTweak, files that installers accept, a page without scripts."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.machine.facts import FactBook
from ktrial.tuning.exporters import export, targets
from ktrial.tuning.exports.model import LastingSetting, Omission
from ktrial.tuning.exports.phone.log import OUTCOMES, is_module_log, log_text, parse_log
from ktrial.tuning.exports.phone.resolve import phone_settings
from ktrial.tuning.knobs.profile import Setting, flatten
from ktrial.tuning.plans.model import Context
from tests.support.exports import NASTY, lasting, own_knob, profile, values
from tests.support.phones import CATALOG, module_files_of

MODULES = {name: targets()[name] for name in ("magisk", "kernelsu", "apatch")}
SHELLS = (("busybox", "ash"), ("mksh",), ("dash",))
#: Profile -> how many settings its source documents. The README names no governor; its script chooses one.
PROFILES = {"ktweak": 41 + 1, **{f"ktweak-2021-{name}": 40 for name in ("balance", "latency", "throughput", "budget")}}
PRINT = """
setting() { printf '%s\\0' setting "$@"; printf '\\001'; }
also() { printf '%s\\0' also "$@"; printf '\\001'; }
. "$1"
settings
"""


def calls(text: str, shell: tuple[str, ...] = ("dash",)) -> list[list[str]]:
    """What settings.sh calls, as a shell reads it."""
    done = subprocess.run(
        [*shell, "-c", PRINT, "sh", "/dev/stdin"], input=text.encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return [one.decode().split("\0")[:-1] for one in done.stdout.split(b"\1")[:-1]]


@pytest.mark.parametrize("name, count", PROFILES.items())
def test_a_module_sets_everything_that_the_source_documents(name: str, count: int) -> None:
    found = {one[1]: one for one in calls(module_files_of([name])["settings.sh"]) if one[0] == "setting"}
    documented = flatten(name, CATALOG.profiles)
    assert len(documented) == count
    assert list(found) != []
    assert found.keys() == {one.knob.partition("@")[0] for one in documented}
    for one in documented:
        knob = CATALOG.knobs[one.knob.partition("@")[0]]
        _, _, _, recipe, argument, _, *places = found[knob.id]
        assert len(places) == len(knob.files)
        if recipe == "value" and knob.value.type not in {"feature", "bool"}:
            assert argument == str(one.value)


@pytest.mark.parametrize(
    "knob, call",
    [
        ("queue:scheduler", ["choice", "first", "cfq kyber", "", "/sys/block/*/queue/scheduler"]),
        ("module:cpu_boost.input_boost_freq", ["pairs", "boost", "1400000", ""]),
        ("cpufreq:hispeed_freq", ["same", "max", "the maximum clock", ""]),
        ("kernel.sched_upmigrate", ["same", "repeated", "80", ""]),
        ("cpufreq:scaling_governor", ["choice", "first", "schedutil interactive", "scaling_available_governors"]),
        ("feature:STRICT_SKIP_BUDDY", ["feature", "value", "NO_STRICT_SKIP_BUDDY", ""]),
    ],
)
def test_what_depends_on_the_phone_is_computed_there(knob: str, call: list[str]) -> None:
    (found,) = (one for one in calls(module_files_of(["ktweak"])["settings.sh"]) if one[:2] == ["setting", knob])
    assert found[2 : 2 + len(call)] == call


def test_what_the_kernel_changes_with_a_value_is_kept_too() -> None:
    found = calls(module_files_of(["vm.dirty_ratio=30", "vm.dirty_bytes=0", "queue:scheduler@sd*=none"])["settings.sh"])
    assert [one[1] for one in found if one[0] == "also"] == ["queue:nr_requests", "queue:wbt_lat_usec"]
    assert "/sys/block/sd*/queue/nr_requests" in found[-2]


@pytest.mark.parametrize("name", MODULES)
def test_the_files_keep_the_rules_of_the_installers(name: str) -> None:
    files = module_files_of(["ktweak"], name)
    properties = dict(line.split("=", 1) for line in files["module.prop"].splitlines())
    assert list(properties) == ["id", "name", "version", "versionCode", "author", "description"]
    assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9._-]+", properties["id"])
    assert int(properties["versionCode"]) > 0
    for path, text in files.items():
        assert "\r" not in text, path
        assert text.endswith("\n"), path
        assert text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable(), path
    for script in ("post-fs-data.sh", "service.sh", "uninstall.sh", "action.sh"):
        first, *lines = files[script].splitlines()
        assert first == "#!/system/bin/sh"
        assert next(line for line in lines if not line.startswith("#")) == "MODDIR=${0%/*}"
    assert "exit" not in re.sub(r"#.*", "", files["customize.sh"])  # it is sourced
    assert "setprop" not in "".join(files.values())
    installer = {path: text for path, text in files.items() if path.startswith("META-INF/com/google/android/")}
    assert len(installer) == (2 if name == "magisk" else 0)
    assert installer.get("META-INF/com/google/android/updater-script", "#MAGISK\n") == "#MAGISK\n"
    assert ("webroot/index.html" in files) == (name != "magisk")


def test_the_page_has_no_script_and_no_network() -> None:
    page = module_files_of(["ktweak"], "kernelsu")["webroot/index.html"]
    assert re.findall(r"<script|https?:|//|\bon\w+=|@import|url\(", page) == []
    assert re.findall(r"src=\"([^\"]*)\"", page) == ["log.txt"]
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'\"" in page
    assert "vm.swappiness = 100" in page


def test_the_page_escapes_what_users_write() -> None:
    setting = lasting("vm.swappiness=1", reasons=("<script>alert(1)</script> & \"'",))
    page = MODULES["apatch"].write(profile([setting]))["webroot/index.html"]
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_same_settings_have_the_same_version_and_others_another() -> None:
    def version(*words: str) -> str:
        return module_files_of(words)["module.prop"].splitlines()[2]

    assert version("vm.swappiness=1") == version("vm.swappiness=1") != version("vm.swappiness=2")


few = settings(max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate))


@given(texts=st.lists(values, min_size=20, max_size=40, unique=True))
@few
def test_hostile_values_never_become_code(texts: list[str]) -> None:
    place = "/sys/block/{block}/queue/scheduler"
    found = [
        LastingSetting(knob=own_knob("own", place), text=text, place=place, pattern=f"d{at}.x", reasons=(text,))
        for at, text in enumerate([*NASTY, *texts])
    ]
    chosen = [one for one in found if MODULES["magisk"].objection(one) is None]
    assert len(chosen) > 20
    text = MODULES["magisk"].write(profile(chosen))["settings.sh"]
    for shell in SHELLS:
        assert [one[4] for one in calls(text, shell)] == [one.text for one in chosen], shell


def left_out(**fields: object) -> str:
    left: list[Omission] = []
    context = Context(CATALOG.knobs, CATALOG.kinds, FactBook({}), {})
    assert phone_settings(Setting(**fields), context, left) == []  # type: ignore[arg-type]
    return left[0].reason


def test_what_no_module_can_know_is_left_out_with_the_reason() -> None:
    assert left_out(knob="vm.swappiness", value=1, when='memory.total >= "8GiB"') == "memory.total is unknown"
    assert left_out(knob="vm.swappiness", value=1, when="os.android == false").startswith("os.android is True")
    assert left_out(knob="queue:scheduler@[rotational=true]", value="none") == "a module selects devices by name only"
    recipe = {"compute": "share", "percent": 1}
    assert left_out(knob="vm.min_free_kbytes", value=recipe).startswith("a module cannot compute share")


def test_a_module_cannot_hold_kernel_arguments_and_says_who_can() -> None:
    with pytest.raises(BadInput, match=r"boot:preempt=full: kernelsu cannot set kernel arguments \(can: grub"):
        export(profile([lasting("boot:preempt=full")]), [MODULES["kernelsu"]], targets().values())


LOG = """ktrial-module-log/1\tktrial-a\t0.1.0-1234abcd
boot\t2026-11-29 17:00:00\tkernel 4.14.117\tOnePlus GM1917, Android 10
conflict\tother\tOther Tweaks\tmentions vm/swappiness queue/scheduler
note\tcannot keep the value of: /proc/sys/vm/x
accepted\tvm.swappiness\t/proc/sys/vm/swappiness\twanted 100\twas 60\tis 100
clamped\tqueue:nr_requests\t/sys/block/sda/queue/nr_requests\twanted 64\twas 128\tis 96
absent\tqueue:scheduler\t/sys/block/dm-0/queue/scheduler\twanted the first of cfq kyber\twas none\tnot offered
overwritten\tvm.swappiness\t/proc/sys/vm/swappiness\tleft 100\tis 60
end\t2026-11-29 17:02:31
"""


@pytest.mark.parametrize("text", [LOG, LOG.replace("\n", "\r\n"), "\ufeff" + LOG])
def test_a_log_is_read_as_it_was_written(text: str) -> None:
    assert is_module_log(text)
    (boot,) = parse_log(text)
    assert (boot.module, boot.version, boot.kernel) == ("ktrial-a", "0.1.0-1234abcd", "4.14.117")
    assert (boot.phone, boot.finished, boot.unread) == ("OnePlus GM1917, Android 10", "2026-11-29 17:02:31", ())
    assert boot.rivals[0].mentions == ("vm/swappiness", "queue/scheduler")
    accepted, clamped, absent, overwritten = boot.settings
    assert (accepted.outcome, accepted.wanted, accepted.before, accepted.now) == ("accepted", "100", "60", "100")
    assert (clamped.now, absent.why, absent.wanted) == ("96", "not offered", "the first of cfq kyber")
    assert (overwritten.before, overwritten.now) == ("100", "60")
    assert not boot.in_force


def test_what_a_person_reads_of_it() -> None:
    text = log_text(parse_log(LOG), width=100)
    assert "ktrial-a 0.1.0-1234abcd on OnePlus GM1917, Android 10, 2026-11-29 17:00:00" in text
    assert re.search(r"clamped +queue:nr_requests@sda +64 +128 +96\n", text)
    assert "This phone lacks: queue:scheduler@dm-0." in text
    assert "1 accepted, 1 clamped, 1 absent, 1 overwritten" in text
    assert "conflict: Other Tweaks (other) mentions vm/swappiness, queue/scheduler" in text
    assert "the log ends early" not in text


def test_only_a_log_whose_settings_all_hold_is_in_force() -> None:
    lines = LOG.splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith(("clamped", "overwritten")))
    assert parse_log(kept)[0].in_force
    assert not parse_log(kept + "guard\tdisabled\n")[0].in_force
    assert not parse_log("".join(lines[:2]))[0].in_force
    assert "the log ends early" in log_text(parse_log("".join(lines[:-1])), width=80)


def test_several_boots_and_unreadable_lines() -> None:
    boots = parse_log(LOG + "accepted\tvm.swap\n" + LOG)
    assert len(boots) == 2
    assert boots[0].unread == ("accepted\tvm.swap",)
    assert "1 unreadable line\n" in log_text(boots, width=80)


@pytest.mark.parametrize(
    "text", ["", "\n", "hello\n", "note\tx\n", "ktrial-module-log/1\n", "ktrial-module-log/2\ta\tb\n"]
)
def test_another_file_is_no_log(text: str) -> None:
    with pytest.raises(BadInput, match="not the log of a phone module"):
        parse_log(text)


lines = st.lists(
    st.one_of(st.sampled_from([*OUTCOMES, "boot", "note", "end", "guard", "conflict"]), values), max_size=7
)


@given(rows=st.lists(lines, max_size=8))
@example(rows=[["accepted", "a", "b", "is 1", "is 2"]])
def test_any_line_is_read_or_named(rows: list[list[str]]) -> None:
    text = "ktrial-module-log/1\ta\tb\n" + "".join("\t".join(row) + "\n" for row in rows)
    boots = parse_log(text)
    known = sum(len(one.settings) + len(one.rivals) + len(one.notes) + len(one.unread) for one in boots)
    written = [line for line in text.replace("\r\n", "\n").split("\n") if line]
    singles = sum(line.split("\t")[0] in {"boot", "end", "guard", "ktrial-module-log/1"} for line in written)
    assert known <= len(written) <= known + singles
    shown = log_text(boots, width=80)
    assert all(character.isprintable() or character == "\n" for character in shown)
