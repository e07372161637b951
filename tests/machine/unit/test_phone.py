# SPDX-License-Identifier: Apache-2.0
"""Facts of a phone, from what its programs print."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.machine.phone import _COMMANDS, names_in, phone_facts, script
from tests.support.phone import DUMPS

PROPERTIES = """[ro.build.version.release]: [14]
[ro.product.manufacturer]: [Google]
[ro.product.model]: [Pixel 6]
[ro.soc.manufacturer]: [Google]
[ro.soc.model]: [GS101]
[ro.boot.bootreason]: [reboot,
 userrequested]
"""
PRINTED = {
    "properties": PROPERTIES,
    "battery": DUMPS["battery"],
    "current": "-412000\n",
    "power": DUMPS["power"],
    "saver": "0\n",
    "thermal": DUMPS["thermalservice"],
    "selinux": "Enforcing\n",
    "release": "5.15.137-android14-11-gbf4f9bc41c3b\n",
    "user": "2000\n",
    "su": "27.0:MAGISKSU\n",
    "processes": "NAME\ninit\nandroid.hardware.thermal@2.0-service\nsystem_server\n",
    "clusters": "policy0|0 1 2 3|250|1803000|schedutil\npolicy6|6 7||2802000|sched_pixel\n",
    "modules": "",
}
ALL = names_in(())


def printed(**other: str) -> str:
    return "".join(f"\n=ktrial {name}\n{text}" for name, text in {**PRINTED, **other}.items())


def value(name: str, **other: str) -> object:
    fact = phone_facts(printed(**other), (name,))[name]
    return fact.value if fact.known else fact.why_missing


def cluster(policy: str, cpus: list[int], capacity: int | None, maximum_khz: int, governor: str) -> dict[str, object]:
    return {
        "policy": policy,
        "cpus": cpus,
        "capacity": capacity,
        "maximum_khz": maximum_khz,
        "governor": governor,
    }


def test_a_shell_prints_the_clusters(tmp_path: Path) -> None:
    for policy, cpus, capacity in (("policy0", "0 1", 160), ("policy4", "4 5", None)):
        folder = tmp_path / "cpufreq" / policy
        folder.mkdir(parents=True)
        for name, text in (("related_cpus", cpus), ("cpuinfo_max_freq", "1800000"), ("scaling_governor", "walt")):
            (folder / name).write_text(f"{text}\n")
        core = tmp_path / f"cpu{cpus[0]}"
        core.mkdir()
        if capacity is not None:
            (core / "cpu_capacity").write_text(f"{capacity}\n")
    command = _COMMANDS["clusters"].replace("/sys/devices/system/cpu", str(tmp_path))
    said = subprocess.run(["mksh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert value("phone.clusters", clusters=said) == [
        cluster("policy0", [0, 1], 160, 1800000, "walt"),
        cluster("policy4", [4, 5], None, 1800000, "walt"),
    ]


def test_all_facts_of_a_phone() -> None:
    facts = phone_facts(printed(), ALL)
    assert {name: fact.value if fact.known else fact for name, fact in facts.items() if name != "phone.modules"} == {
        "battery.level": 85,
        "power.source": "mains",
        "phone.android": "14",
        "phone.battery_current": -412.0,
        "phone.battery_temperature": 28.1,
        "phone.charging": "charging",
        "phone.clusters": [
            cluster("policy0", [0, 1, 2, 3], 250, 1803000, "schedutil"),
            cluster("policy6", [6, 7], None, 2802000, "sched_pixel"),
        ],
        "phone.cooling": [{"name": "thermal-cpufreq-0", "state": 0}],
        "phone.kernel": "gki",
        "phone.low_power": False,
        "phone.maker": "Google",
        "phone.model": "Pixel 6",
        "phone.root": "magisk",
        "phone.screen": "on",
        "phone.selinux": "enforcing",
        "phone.services": ["android.hardware.thermal@2.0-service"],
        "phone.skin_temperature": 31.4,
        "phone.soc": "Google GS101",
        "phone.soc_maker": "tensor",
        "phone.thermal_status": 0,
    }
    assert value("phone.modules") == "only root can read /data/adb/modules; `facts phone.modules` asks su"


@pytest.mark.parametrize(
    "name, section, text, wanted",
    [
        ("battery.level", "battery", "level: 40\nscale: 50\n", 80),
        ("battery.level", "battery", "level: 101\nscale: 100\n", "`dumpsys battery` does not print this fact"),
        ("power.source", "battery", "AC powered: false\nUSB powered: false\n", "battery"),
        ("phone.battery_temperature", "battery", "temperature: 0\n", "`dumpsys battery` does not print this fact"),
        ("phone.battery_current", "current", "-412\n", "the unit of -412 is unknown: too small or too large"),
        ("phone.battery_current", "current", "Unknown get option: current_now\n", None),
        ("phone.screen", "power", "mWakefulness=Asleep\n", "off"),
        ("phone.low_power", "saver", "1\n", True),
        ("phone.low_power", "saver", "null\n", False),
        ("phone.thermal_status", "thermal", "Thermal Status: 3\n", 3),
        ("phone.skin_temperature", "thermal", "Temperature{mValue=33.0, mType=3, mName=skin, mStatus=0}", 33.0),
        # A number of another locale is no number of degrees.
        ("phone.skin_temperature", "thermal", "Temperature{mValue=33,4, mType=3, mName=skin, mStatus=0}", None),
        ("battery.level", "battery", "level: 8,5\nscale: 100\n", "`dumpsys battery` does not print this fact"),
        ("phone.battery_temperature", "battery", "temperature: 28,1\n", "`dumpsys battery` does not print this fact"),
        ("phone.skin_temperature", "thermal", "Can't find service: thermalservice", None),
        ("phone.selinux", "selinux", "Permissive\n", "permissive"),
        ("phone.root", "user", "0\n", "adbd"),
        ("phone.root", "su", "", "no su"),
        ("phone.root", "su", "v1.0.2:KernelSU", "kernelsu"),
        ("phone.kernel", "release", "4.14.190-perf+\n", "vendor"),
        ("phone.soc_maker", "properties", "[ro.board.platform]: [msm8998]\n", "qualcomm"),
        ("phone.soc_maker", "properties", "[ro.hardware]: [mt6785]\n", "mediatek"),
        ("phone.soc", "properties", "[ro.hardware]: [ranchu]\n", "ranchu"),
        ("phone.services", "processes", "NAME\nthermal-engine-v2\nmpdecision\n", ["mpdecision", "thermal-engine-v2"]),
    ],
)
def test_what_other_phones_print(name: str, section: str, text: str, wanted: object) -> None:
    found = value(name, **{section: text})
    assert found == wanted if wanted is not None else "does not print this fact" in str(found)


def test_modules_are_read_by_root() -> None:
    assert value("phone.modules", user="0\n", modules="ktweak\nzygisk\n") == ["ktweak", "zygisk"]
    assert value("phone.modules", user="0\n", modules="") == []


def test_a_command_that_did_not_run_is_named() -> None:
    assert phone_facts("", ("phone.screen",))["phone.screen"].unknown == f"the phone did not run `{_COMMANDS['power']}`"


def test_only_what_is_needed_is_asked() -> None:
    assert script(("phone.screen",)).count("=ktrial") == 1
    assert set(names_in(("battery", "phone.screen"))) == {"battery.level", "phone.screen"}
    assert names_in(("cpu",)) == ()


@given(st.dictionaries(st.sampled_from(list(PRINTED)), st.text(max_size=80)), st.text(max_size=40))
def test_anything_printed_gives_facts_or_reasons(other: dict[str, str], noise: str) -> None:
    facts = phone_facts(noise + printed(**other), ALL)
    assert set(facts) == set(ALL)
    for fact in facts.values():
        assert (fact.value is None) != fact.known


@given(st.data())
def test_cut_output_gives_facts_or_reasons(data: st.DataObject) -> None:
    text = printed()
    facts = phone_facts(text[: data.draw(st.integers(0, len(text)))], ALL)
    for name, fact in facts.items():
        if name == "phone.skin_temperature" and fact.known:
            assert 0 < fact.value < 100
