# SPDX-License-Identifier: Apache-2.0
"""Find who set a knob: the file and line, service or transaction whose value is in force, and what it overrode."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ktrial.kit.errors import BadInput
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.machine.reading import InstanceState, KnobState
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.computed import default_value
from ktrial.tuning.knobs.knob import INSTANCE_FACTS, Knob
from ktrial.tuning.knobs.observe import observe
from ktrial.tuning.knobs.profile import Setting
from ktrial.tuning.knobs.value import active_text, kernel_text, same_value
from ktrial.tuning.origin.configured import VENDOR, Claims, ConfiguredValue, gather
from ktrial.tuning.origin.formats import command_line, sysctl_d
from ktrial.tuning.origin.formats.lines import Assignment
from ktrial.tuning.origin.origin import ORDER, Origin, Source, Verdict, Word

#: Knob -> configuration symbol with the knob's value.
_SAME = {
    "net.ipv4.tcp_congestion_control": "DEFAULT_TCP_CONG",
    "net.core.default_qdisc": "DEFAULT_NET_SCH",
    "vm.compact_unevictable_allowed": "COMPACT_UNEVICTABLE_DEFAULT",
    "zswap:compressor": "ZSWAP_COMPRESSOR_DEFAULT",
    "zswap:zpool": "ZSWAP_ZPOOL_DEFAULT",
    "kernel.hung_task_timeout_secs": "DEFAULT_HUNG_TASK_TIMEOUT",
}

#: Knob -> configuration symbol that enables it.
_SWITCH = {
    "zswap:enabled": "ZSWAP_DEFAULT_ON",
    "zswap:shrinker_enabled": "ZSWAP_SHRINKER_DEFAULT_ON",
    "kernel.numa_balancing": "NUMA_BALANCING_DEFAULT_ENABLED",
    "kernel.sched_autogroup_enabled": "SCHED_AUTOGROUP",
    "workqueue:power_efficient": "WQ_POWER_EFFICIENT_DEFAULT",
}

#: Knob -> configuration symbols with the value that each stands for; a kernel sets one of them.
_CHOICE = {
    "thp:enabled": {
        "TRANSPARENT_HUGEPAGE_ALWAYS": "always",
        "TRANSPARENT_HUGEPAGE_MADVISE": "madvise",
        "TRANSPARENT_HUGEPAGE_NEVER": "never",
    },
    "cpufreq:scaling_governor": {
        f"CPU_FREQ_DEFAULT_GOV_{name.upper()}": name
        for name in ("performance", "powersave", "userspace", "ondemand", "conservative", "schedutil")
    },
    "power:pcie_aspm_policy": {
        "PCIEASPM_DEFAULT": "default",
        "PCIEASPM_POWERSAVE": "powersave",
        "PCIEASPM_POWER_SUPERSAVE": "powersupersave",
        "PCIEASPM_PERFORMANCE": "performance",
    },
}


def built_value(knob: str, configuration: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the symbol of the kernel's configuration that sets the knob, and the knob's value; None without one."""
    symbol = _SAME.get(knob)
    if symbol is not None:
        value = configuration.get(symbol)
        return (symbol, str(value)) if value not in (None, "", "n") else None
    symbol = _SWITCH.get(knob)
    if symbol is not None and symbol in configuration:
        return symbol, "1" if configuration[symbol] == "y" else "0"
    for symbol, value in _CHOICE.get(knob, {}).items():
        if configuration.get(symbol) == "y":
            return symbol, value
    return None


FACTS = ("memory.", "cpu.threads", "thp.enabled", "block.devices", "kernel.config", "kernel.release")
"""The facts that `origins` needs."""

_READ_LAST = "read last by `sysctl --system`; systemd reads it only if sysctl.d has a link to it"
_BOOT_PLACES = {
    "transparent_hugepage": "/sys/kernel/mm/transparent_hugepage/enabled",
    "numa_balancing": "/proc/sys/kernel/numa_balancing",
    "nmi_watchdog": "/proc/sys/kernel/nmi_watchdog",
}
_ZRAM_PLACES = {"zram-size": "disksize", "compression-algorithm": "comp_algorithm", "zram-resident-limit": "mem_limit"}


def origins(
    machine: Machine,
    catalog: Catalog,
    knobs: Iterable[Knob],
    claims: Claims | None = None,
    facts: FactBook | None = None,
    meant: Iterable[str | None] = (),
) -> tuple[Origin, ...]:
    """Return who set each knob, for each instance; a knob that the machine lacks has the verdict `absent`.

    Nested control groups count only if a selector in `meant` names them.
    """
    knobs = list(knobs)
    claims = claims if claims is not None else gather(machine)
    facts = facts if facts is not None else machine.facts(FACTS)
    states = observe(machine, (knob for knob in knobs if knob.files), meant)
    found: list[Origin] = []
    for knob in knobs:
        state = states.get(knob.id)
        if state is None or not state.instances:
            found.append(_without_file(knob, state, claims, facts))
        else:
            found += [_origin(knob, instance, claims, facts, catalog) for instance in state.instances]
    return tuple(found)


def vendor_settings(machine: Machine, catalog: Catalog) -> tuple[Setting, ...]:
    """Return the settings that the distribution's own files make here: for each instance, the last setting."""
    claims = gather(machine, vendor_only=True)
    knobs = [knob for knob in catalog.knobs.values() if knob.files and knob.kind != "zram"]
    settings: list[Setting] = []
    for state in observe(machine, knobs).values():
        knob = catalog.knobs[state.knob]
        for instance in state.instances:
            words = [claim.assignment for claim in claims_about(knob, instance, claims)]
            value = _as_taken(knob, words[-1].value) if words else None
            if value is not None:
                address = f"{knob.id}@{instance.label}" if instance.label else knob.id
                settings.append(Setting(knob=address, value=value, why=words[-1].place))
    return tuple(settings)


def _as_taken(knob: Knob, value: str | None) -> str | None:
    """Return the text that the kernel takes for the value, or None if the catalog does not allow the value."""
    try:
        return None if value is None else kernel_text(knob, value)
    except BadInput:
        return None


def _origin(knob: Knob, instance: InstanceState, claims: Claims, facts: FactBook, catalog: Catalog) -> Origin:
    source = INSTANCE_FACTS.get(knob.placeholders[0]) if knob.placeholders else None
    near = facts.with_device(catalog.kinds, source, instance.label.partition("/")[0]) if source else facts
    shown = instance.reading.text
    default, unknown = (shown, None) if shown in knob.value.states else _default(knob, near)
    value = None if shown is None else active_text(knob, shown)
    if value is not None and default is not None and same_value(knob, value, default):
        default = value
    words = [*_build_words(knob, value, default, facts), *_words(knob, instance, claims, value)]
    base = Origin(
        knob=knob.id,
        address=f"{knob.id}@{instance.label}" if instance.label else knob.id,
        path=instance.path,
        value=value,
        default=default,
        default_unknown=unknown,
        verdict="unknown-writer",
    )
    if value is None:
        why = instance.reading.unreadable or instance.reading.invalid or "it could not be read"
        return replace(base, verdict="unreadable", overrode=tuple(words), why=why)
    winner = max((at for at, word in enumerate(words) if word.in_force), default=None)
    if winner is not None:
        last = words[winner].place.startswith(f"{sysctl_d.SYSCTL_CONF}:")
        return replace(
            base,
            verdict="set",
            why=_READ_LAST if last else None,
            set_by=words[winner],
            overrode=tuple(words[:winner]),
            not_in_force=tuple(words[winner + 1 :]),
        )
    verdict: Verdict = "unknown-writer"
    if default is not None and value == default:
        verdict = "kernel-default"
    elif default is None:
        verdict = "nobody-named"
    return replace(base, verdict=verdict, not_in_force=tuple(words))


def _default(knob: Knob, facts: FactBook) -> tuple[str | None, str | None]:
    value, unknown = default_value(knob, facts)
    return (None, unknown) if value is None else (kernel_text(knob, value), None)


def _without_file(knob: Knob, state: KnobState | None, claims: Claims, facts: FactBook) -> Origin:
    """Return the origin of a boot parameter, or of a knob that this machine lacks."""
    default, unknown = _default(knob, facts)
    found = [claim for claim in claims.others if claim.assignment.kind == "boot" and knob.kind == "boot"]
    named = [claim for claim in found if command_line.same_name(claim.assignment.name, knob.short_name)]
    words = [
        _word("command-line", item, in_force=True) for claim in named for item in (*claim.overrode, claim.assignment)
    ]
    base = Origin(
        knob=knob.id,
        address=knob.id,
        path=None,
        value=None,
        default=default,
        default_unknown=unknown,
        verdict="absent",
        why=state.blocked if state is not None else None,
    )
    if words:
        value = words[-1].value
        return replace(
            base,
            value="(given)" if value is None else value,
            verdict="set",
            set_by=words[-1],
            overrode=tuple(words[:-1]),
        )
    if knob.kind == "boot":
        return replace(base, value=default, verdict="kernel-default", why="not on the kernel command line")
    return base


def _words(knob: Knob, instance: InstanceState, claims: Claims, value: str | None) -> list[Word]:
    words: list[Word] = []
    for claim in claims_about(knob, instance, claims):
        last = claim.assignment
        words += [_word(claim.source, item, in_force=False) for item in claim.overrode]
        words.append(_word(claim.source, last, in_force=_is_in_force(knob, claim, value)))
    return words


def _build_words(knob: Knob, value: str | None, default: str | None, facts: FactBook) -> list[Word]:
    """Return what the kernel's configuration says about the knob; nothing if it says the mainline default."""
    found = built_value(knob.id, facts.value("kernel.config") or {})
    if found is None or value is None:
        return []
    symbol, built = found
    if default is not None and _same(knob, default, built):
        return []
    place = f"CONFIG_{symbol}"
    in_force = _same(knob, value, built)
    return [Word(source="kernel-build", place=place, value=built, text=place, conditions=(), in_force=in_force)]


def _word(source: Source, item: Assignment, *, in_force: bool) -> Word:
    place = item.text if source == "ktrial" else item.file if source == "command-line" else item.place
    return Word(
        source=source, place=place, value=item.value, text=item.text, conditions=item.conditions, in_force=in_force
    )


def claims_about(knob: Knob, instance: InstanceState, claims: Claims) -> list[ConfiguredValue]:
    """Return the claims that name the instance, in the order in which their sources act."""
    found = [claim for claim in claims.others if _names(claim, instance)]
    if instance.path.startswith("/proc/sys/"):
        key = sysctl_d.canonical(instance.path.removeprefix("/proc/sys/"))
        winner = claims.sysctl.winner(key)
        if winner is not None:
            found.append(ConfiguredValue(source="sysctl.d", assignment=winner.assignment, overrode=winner.overrode))
    token = knob.value.type == "feature"
    found = [
        claim for claim in found if not token or (claim.assignment.value or "").removeprefix("NO_") == knob.short_name
    ]
    administrators = {one.source for one in found if not one.assignment.file.startswith(VENDOR)}
    return sorted(
        found,
        key=lambda claim: ORDER.index(
            "sysctl.d" if "sysctl.d" in administrators and yields(claim, claims) else claim.source
        ),
    )


def yields(claim: ConfiguredValue, claims: Claims) -> bool:
    """Return whether `claim` is a value of TuneD that the administrator's files of sysctl.d override."""
    return claims.tuned_reapplies and claim.source == "tuned" and claim.assignment.kind == "sysctl"


def _names(claim: ConfiguredValue, instance: InstanceState) -> bool:
    """Return whether a claim from outside sysctl.d names this instance's file."""
    item, path = claim.assignment, instance.path
    if item.kind == "path":
        return _glob(item.name, path)
    if item.kind == "sysctl":
        key = sysctl_d.canonical(path.removeprefix("/proc/sys/"))
        return path.startswith("/proc/sys/") and sysctl_d.matches(item.name, key)
    if item.kind in ("boot", "module"):
        return _parameter_path(item.name) == path.replace("-", "_")
    if item.kind == "zram":
        return path == f"/sys/block/{item.instance}/{_ZRAM_PLACES.get(item.name)}"
    return claim.rule is not None and _rule_names(claim, path)


def _glob(pattern: str, path: str) -> bool:
    """Return whether a path matches a pattern; `*` does not match a slash."""
    wanted, parts = pattern.split("/"), path.split("/")
    return len(wanted) == len(parts) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _parameter_path(name: str) -> str | None:
    """Return the file that shows a boot or module parameter, with `_` for `-`; None if no file is known."""
    folded = name.replace("-", "_")
    if folded.startswith("sysctl."):
        return "/proc/sys/" + folded.removeprefix("sysctl.").replace(".", "/")
    module, dot, parameter = folded.partition(".")
    return f"/sys/module/{module}/parameters/{parameter}" if dot else _BOOT_PLACES.get(folded)


def _rule_names(claim: ConfiguredValue, path: str) -> bool:
    """Return whether a udev rule that sets an attribute may apply to the device of this path."""
    tail = f"/{claim.assignment.name}"
    if claim.rule is None or not path.endswith(tail):
        return False
    device = path[: -len(tail)]
    name = device.rpartition("/")[2]
    found = re.match(r"/sys/(?:class/([^/]+)/|bus/([^/]+)/devices/|(block)/)", path)
    subsystem = next((group for group in found.groups() if group), None) if found else None
    if subsystem is not None and not claim.rule.may_match("SUBSYSTEM", subsystem):
        return False
    return claim.rule.may_match("KERNEL", name)


def _is_in_force(knob: Knob, claim: ConfiguredValue, value: str | None) -> bool:
    """Return whether the claimed value is in force; sizes of zram (`min(ram / 2, 4096)`) are assumed to be."""
    item = claim.assignment
    if value is None:
        return False
    if item.kind == "zram" and item.name != "compression-algorithm":
        return True
    claimed = (item.value or "").split()[0] if item.kind == "zram" and item.value else item.value
    if claimed is None:
        return knob.value.type == "bool" and same_value(knob, value, "1")
    if claim.assignment.direction is not None and _number(value) is not None and _number(claimed) is not None:
        higher = int(value) >= int(claimed)
        return higher if item.direction == "raise" else int(value) <= int(claimed)
    choices = item.alternatives or (claimed,)
    return any(_same(knob, value, choice) for choice in choices)


def _same(knob: Knob, value: str, claimed: str) -> bool:
    text: Any = _as_taken(knob, claimed)
    return same_value(knob, value, " ".join(claimed.split())) or (text is not None and same_value(knob, value, text))


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,20}", text) else None
