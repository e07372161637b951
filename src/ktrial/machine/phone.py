# SPDX-License-Identifier: Apache-2.0
"""Facts of a phone that its kernel's files do not have: Android's own programs print them.

`script` returns the commands, `phone_facts` reads what they print. A fact whose program is missing, refuses or prints
something else is unknown, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ktrial.machine.facts import Fact

#: The commands by the name of their section.
_COMMANDS = {
    "properties": "getprop",
    "battery": "dumpsys battery",
    "current": "cat /sys/class/power_supply/battery/current_now 2> /dev/null || cmd battery get current_now",
    "power": "dumpsys power | grep -e mWakefulness=",
    "saver": "settings get global low_power",
    "thermal": "dumpsys thermalservice",
    "selinux": "getenforce",
    "release": "uname -r",
    "user": "id -u",
    "su": "su -v",
    "processes": "ps -A -o NAME",
    "clusters": "(cd /sys/devices/system/cpu/cpufreq && for p in policy*; do read -r first _ < $p/related_cpus && "
    'echo "$p|$(cat $p/related_cpus)|$(cat ../cpu$first/cpu_capacity)|$(cat $p/cpuinfo_max_freq)|'
    '$(cat $p/scaling_governor)"; done) 2> /dev/null',
    "modules": "[ -r /data/adb/modules ] && cd /data/adb/modules && for m in *; do "
    '[ ! -f "$m/module.prop" ] || [ -e "$m/disable" ] || echo "$m"; done',
}
_MARK = "=ktrial"
#: The fact that only root can read, and the command that prints it, whose words a shell would not change.
MODULES = "phone.modules"
LIST_MODULES = ("/system/bin/find", "/data/adb/modules", "-maxdepth", "2", "-type", "f")
#: Names of processes that change clocks, governors and limits on their own.
_SERVICES = re.compile(
    r"(?:.*[./@-])?(thermal-engine[\w-]*|mi_thermald|thermald|thermal_core|perfd|perf-hal-service|perfservice"
    r"|mpdecision|power-service[\w.-]*|android\.hardware\.power[\w@.-]*|android\.hardware\.thermal[\w@.-]*"
    r"|vendor\.qti\.hardware\.perf[\w@.-]*|vendor\.mediatek\.hardware\.mtkpower[\w@.-]*|uperf|scene-daemon)"
)
#: A word in the output of `su -v` -> the tool that provides su.
_SU = {"magisk": "magisk", "kernelsu": "kernelsu", "ksu": "kernelsu", "apatch": "apatch"}
#: Makers of systems on chip, and how their names for chips begin.
_MAKERS = {
    "qualcomm": r"qti|qcom|qualcomm|msm|sdm|sm\d",
    "mediatek": r"mediatek|mt\d",
    "exynos": r"samsung|exynos|universal\d|s5e",
    "tensor": r"google|gs\d|zuma",
}
#: The charging state in `dumpsys battery`.
_CHARGING = {"2": "charging", "3": "discharging", "4": "not charging", "5": "full"}
#: The type number of the temperature of a phone's surface.
_SKIN = 3

Sections = Mapping[str, str]
Read = Callable[[Sections], Any]


def names_in(only: Sequence[str]) -> tuple[str, ...]:
    """Return the phone's facts that `only` names, including those below each name; all facts if `only` is empty."""
    return tuple(name for name in _FACTS if not only or any(f"{name}.".startswith(f"{one}.") for one in only))


def script(names: Iterable[str]) -> str:
    """Return the shell commands that print what these facts need."""
    needed = {section for name in names for section in _FACTS[name][0]}
    return "\n".join(
        f"echo; echo {_MARK} {section}; {_COMMANDS[section]}" for section in _COMMANDS if section in needed
    )


def phone_facts(text: str, names: Iterable[str]) -> dict[str, Fact]:
    """Return the named facts from `text`, the output of the commands in `script`."""
    sections: dict[str, str] = {}
    for part in re.split(rf"^{_MARK} ", text, flags=re.MULTILINE)[1:]:
        name, _, content = part.partition("\n")
        sections[name.strip()] = content
    return {name: _fact(name, sections) for name in names}


def modules_in(text: str) -> list[str]:
    """Return the names of the enabled modules in the output of LIST_MODULES."""
    files = [line.split("/")[-2:] for line in text.splitlines() if line.count("/") == 5]
    installed, disabled = ({module for module, file in files if file == name} for name in ("module.prop", "disable"))
    return sorted(installed - disabled)


def _fact(name: str, sections: Sections) -> Fact:
    needed, read = _FACTS[name]
    try:
        value = read(sections)
    except KeyError as error:
        return Fact(unknown=f"the phone did not run `{_COMMANDS[error.args[0]]}`")
    if isinstance(value, Fact):
        return value
    if value is None:
        return Fact(unknown=f"`{_COMMANDS[needed[0]]}` does not print this fact")
    return Fact(value=value)


def _properties(sections: Sections) -> dict[str, str]:
    return dict(re.findall(r"^\[([^\]]+)\]: \[(.*)\]\s*$", sections["properties"], re.MULTILINE))


def _property(*names: str) -> Read:
    def read(sections: Sections) -> str | None:
        found = _properties(sections)
        return next((found[name] for name in names if found.get(name)), None)

    return read


def _soc(sections: Sections) -> str | None:
    found = _properties(sections)
    words = [found.get(name) for name in ("ro.soc.manufacturer", "ro.soc.model")]
    return " ".join(word for word in words if word) or found.get("ro.board.platform") or found.get("ro.hardware")


def _maker(sections: Sections) -> str | None:
    found = _properties(sections)
    for name in ("ro.soc.manufacturer", "ro.soc.model", "ro.board.platform", "ro.hardware"):
        for maker, pattern in _MAKERS.items():
            if re.match(pattern, found.get(name, ""), re.IGNORECASE):
                return maker
    return None


def _field(text: str, name: str) -> str | None:
    found = re.search(rf"^\s*{name}: *(\S.*?)\s*$", text, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,12}", text, re.ASCII) else None


def _battery_level(sections: Sections) -> int | None:
    level, scale = (_number(_field(sections["battery"], name)) for name in ("level", "scale"))
    if level is None or not scale or not 0 <= level <= scale:
        return None
    return round(100 * level / scale)


def _battery_temperature(sections: Sections) -> float | None:
    tenths = _number(_field(sections["battery"], "temperature"))
    return tenths / 10 if tenths is not None and -400 <= tenths <= 1500 and tenths != 0 else None


def _battery_current(sections: Sections) -> float | Fact | None:
    """Return milliamperes; makers differ in which sign means charging. The kernel's unit is microamperes."""
    current = _number(sections["current"].strip())
    if current is None:
        return None
    # A phone that answers draws more than 10 mA: a smaller number has another unit.
    plausible = 10_000 <= abs(current) <= 20_000_000
    return current / 1000 if plausible else Fact(unknown=f"the unit of {current} is unknown: too small or too large")


def _source(sections: Sections) -> str | None:
    powered = re.findall(r"^\s*(?:AC|USB|Wireless|Dock) powered: *(true|false)\s*$", sections["battery"], re.MULTILINE)
    return None if not powered else "mains" if "true" in powered else "battery"


def _screen(sections: Sections) -> str | None:
    found = re.search(r"^\s*mWakefulness=(Awake|Dreaming|Dozing|Asleep)\b", sections["power"], re.MULTILINE)
    return None if found is None else "on" if found[1] in {"Awake", "Dreaming"} else "off"


def _low_power(sections: Sections) -> bool | None:
    return {"1": True, "0": False, "null": False}.get(sections["saver"].strip())


def _skin(sections: Sections) -> float | None:
    """Return the highest surface temperature that the hardware reports now, or else reported last; None without any."""
    text = sections["thermal"]
    parts = text.partition("Current temperatures from HAL")[2], text
    pattern = rf"Temperature\{{mValue=(-?\d{{1,3}}(?:\.\d+)?), mType={_SKIN}, "
    found = next((values for part in parts if (values := re.findall(pattern, part, re.ASCII))), [])
    return max((float(value) for value in found), default=None)


def _cooling(sections: Sections) -> list[dict[str, Any]] | None:
    """Return the cooling devices with their states; a device in state 0 limits nothing."""
    part = sections["thermal"].partition("Current cooling devices from HAL")[2]
    found = re.findall(r"CoolingDevice\{mValue=(\d{1,6}), mType=\d+, mName=([^},]+)", part, re.ASCII)
    return [{"name": name, "state": int(state)} for state, name in found] or None


def _thermal_status(sections: Sections) -> int | None:
    status = _number(_field(sections["thermal"], "Thermal Status"))
    return status if status is not None and 0 <= status <= 6 else None


def _selinux(sections: Sections) -> str | None:
    word = sections["selinux"].strip().lower()
    return word if word in {"enforcing", "permissive", "disabled"} else None


def _kernel(sections: Sections) -> str | None:
    """Return `gki` for Google's generic kernel image, `vendor` for another kernel; None if the release is unknown."""
    release = sections["release"].strip()
    return None if not release else "gki" if re.search(r"-android\d+-\d", release) else "vendor"


def _root(sections: Sections) -> str | Fact:
    if sections["user"].strip() == "0":
        return "adbd"
    told = sections["su"].strip().lower()
    if not told:
        return Fact(absent="no su")
    return next((kind for word, kind in _SU.items() if word in told), "su")


def _clusters(sections: Sections) -> list[dict[str, Any]] | Fact:
    """Return the clusters: CPUs that share a clock, with their capacity (at most 1024), highest clock and governor."""
    rows = [line.split("|") for line in sections["clusters"].splitlines() if line.count("|") == 4]
    if not rows:
        return Fact(unknown="the kernel shows no frequency policies")
    return [
        {
            "policy": policy,
            "cpus": [int(cpu) for cpu in cpus.split() if cpu.isdecimal()],
            "capacity": int(capacity) if capacity.isdecimal() else None,
            "maximum_khz": int(clock) if clock.isdecimal() else None,
            "governor": governor.strip() or None,
        }
        for policy, cpus, capacity, clock, governor in rows
    ]


def _services(sections: Sections) -> list[str] | None:
    found = [line.strip() for line in sections["processes"].splitlines() if line.strip()]
    return sorted({one for one in found if _SERVICES.fullmatch(one)}) if len(found) > 1 else None


def _modules(sections: Sections) -> list[str] | Fact:
    if not sections["modules"].strip() and sections["user"].strip() != "0":
        return Fact(unknown="only root can read /data/adb/modules; `facts phone.modules` asks su")
    return sorted(sections["modules"].split())


_FACTS: Mapping[str, tuple[tuple[str, ...], Read]] = {
    "battery.level": (("battery",), _battery_level),
    "power.source": (("battery",), _source),
    "phone.android": (("properties",), _property("ro.build.version.release")),
    "phone.battery_current": (("current",), _battery_current),
    "phone.battery_temperature": (("battery",), _battery_temperature),
    "phone.charging": (("battery",), lambda all_: _CHARGING.get(_field(all_["battery"], "status") or "")),
    "phone.clusters": (("clusters",), _clusters),
    "phone.cooling": (("thermal",), _cooling),
    "phone.kernel": (("release",), _kernel),
    "phone.low_power": (("saver",), _low_power),
    "phone.maker": (("properties",), _property("ro.product.manufacturer", "ro.product.brand")),
    "phone.model": (("properties",), _property("ro.product.model")),
    MODULES: (("modules", "user"), _modules),
    "phone.root": (("su", "user"), _root),
    "phone.screen": (("power",), _screen),
    "phone.selinux": (("selinux",), _selinux),
    "phone.services": (("processes",), _services),
    "phone.skin_temperature": (("thermal",), _skin),
    "phone.soc": (("properties",), _soc),
    "phone.soc_maker": (("properties",), _maker),
    "phone.thermal_status": (("thermal",), _thermal_status),
}
"""The facts, with the sections that they need. Android's rules hide the battery's files from programs, so two facts
from its battery service replace those of the agent."""
