# SPDX-License-Identifier: Apache-2.0
"""Find who else writes a kept setting, and which writer wins at boot."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping

from ktrial.machine.reading import InstanceState, Reading
from ktrial.tuning.knobs.knob import Knob, clear_each_other
from ktrial.tuning.knobs.value import same_value
from ktrial.tuning.lasting.model import PLACES, Form, Rival
from ktrial.tuning.origin.configured import Claims, ConfiguredValue
from ktrial.tuning.origin.formats import sysctl_d
from ktrial.tuning.origin.formats.lines import Assignment
from ktrial.tuning.origin.origin import ORDER
from ktrial.tuning.origin.why import claims_about, yields
from ktrial.tuning.plans.model import Change

#: Running service -> the knobs that it writes while it runs.
_SERVICES = {
    "power-profiles-daemon": ("cpufreq:energy_performance_preference", "cpufreq:scaling_governor", "cpufreq:boost"),
    "tlp": ("cpufreq:", "power:", "queue:scheduler"),
    "auto-cpufreq": ("cpufreq:",),
    "ksmtuned": ("ksm:",),
}
_AT_BOOT, _LATER, _BY_HAND = "at boot", "later", "when somebody runs `sysctl --system`"
_BY_TUNED, _YIELDS = "when TuneD starts, which reads it last", "before TuneD applies sysctl.d again"


def rivals_of(
    change: Change, form: Form, knobs: Mapping[str, Knob], claims: Claims, services: Iterable[str]
) -> Iterator[Rival]:
    """Yield the other writers of one setting, whether the kept value overrides them or not."""
    knob = knobs[change.knob]
    for claim, item in _lines(knob, change.address.partition("@")[2], change.path, claims):
        differs = item.value is None or not same_value(knob, change.new_text, " ".join(item.value.split()))
        yield _rival(change, form, claim, item, claims, differs=differs)
    for name in knob.couples:
        partner = knobs.get(name)
        # Whoever writes the partner clears the kept value.
        if partner is not None and clear_each_other(knob, partner) and change.new_text != "0":
            for claim, item in _lines(partner, "", partner.files[0], claims):
                yield _rival(change, form, claim, item, claims, differs=item.value != "0", partner=f"{name} = ")
    for service in services:
        if change.knob.startswith(_SERVICES.get(service, ("\0",))):
            yield Rival(change.address, f"the service {service}", None, wins=True, when="while it runs")


def _lines(knob: Knob, label: str, path: str, claims: Claims) -> Iterator[tuple[ConfiguredValue, Assignment]]:
    """Yield the lines of other files that set this file, with their source."""
    for claim in claims_about(knob, InstanceState(label, path, Reading()), claims):
        if claim.source not in {"ktrial", "kernel-build"}:
            for item in (*claim.overrode, claim.assignment):
                if item.file not in PLACES.values():
                    yield claim, item


def _rival(
    change: Change,
    form: Form,
    claim: ConfiguredValue,
    item: Assignment,
    claims: Claims,
    *,
    differs: bool,
    partner: str = "",
) -> Rival:
    place = item.place if claim.source != "command-line" else "the kernel command line"
    value = item.value if item.value is None else f"{partner}{item.value}"
    if item.file == sysctl_d.SYSCTL_CONF:
        last = claims.tuned_reapplies
        return Rival(change.address, place, value, wins=last and differs, when=_BY_TUNED if last else _BY_HAND)
    if form == "sysctl.d" and yields(claim, claims):
        return Rival(change.address, place, value, wins=False, when=_YIELDS)
    conditions = f" if {', '.join(item.conditions)}" if item.conditions else ""
    when = (_LATER if claim.source in {"udev", "tuned"} else _AT_BOOT) + conditions
    return Rival(change.address, place, value, wins=differs and _is_later(form, claim, item), when=when)


def _is_later(form: Form, claim: ConfiguredValue, item: Assignment) -> bool:
    """Return whether a line takes effect after the kept file."""
    if form == "systemd-unit":
        return claim.source == "tuned"
    if claim.source != form:
        # kmod appends the options of the kernel command line to those of its files.
        is_option = form == "modprobe.d" and claim.source == "command-line"
        return is_option or ORDER.index(claim.source) > ORDER.index(form)
    is_glob = sysctl_d.is_glob(item.name)
    # A line with the key's own name wins over a glob, wherever the glob is.
    if form == "sysctl.d" and is_glob:
        return False
    own, other = posixpath.basename(PLACES[form]), posixpath.basename(item.file)
    # Of the lines of tmpfiles.d for one path the first counts; a pattern is a path of its own.
    return other < own if form == "tmpfiles.d" and not is_glob else other > own
