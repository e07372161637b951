# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for sysctls and files of /sys that the catalog lacks, so that `ktrial why` can say who set them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.tuning.knobs.address import Address, parse_address
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.knob import ROOTS, Knob, ValueSpec, instance_of
from ktrial.tuning.origin.formats.sysctl_d import canonical

_SYSCTLS = "/proc/sys/"
_SYSCTL = re.compile(r"[A-Za-z0-9_-]+(?:[./][A-Za-z0-9_-]+)+")
_FILE = re.compile(r"/(?:proc/)?sys(?:/(?!\.{1,2}(?:/|$))[^/*?\[\]{}\s]+)+")


def knob_or_file(text: str, knobs: Mapping[str, Knob]) -> tuple[Address, Knob]:
    """Return the knob with this name or file. If the catalog lacks it, return a stand-in without a known default.

    If the name of a sysctl is misspelled, the stand-in has no file on the machine. Raise BadInput for a file outside
    the folders of settings.
    """
    if _FILE.fullmatch(text):
        return _of_file(text, knobs)
    try:
        return parse_address(text), find_knob(text, knobs)
    except UnknownName:
        if not _SYSCTL.fullmatch(text):
            raise
        return _of_file(_SYSCTLS + canonical(text).translate(str.maketrans("./", "/.")), knobs)


def _of_file(path: str, knobs: Mapping[str, Knob]) -> tuple[Address, Knob]:
    for knob in knobs.values():
        for place in knob.files:
            label = instance_of(place, path)
            if label is not None:
                return Address(knob.id, label or None), knob
    if not path.startswith(ROOTS):
        raise BadInput(f"{path} is outside the folders of settings", hint=f"name a file below {', '.join(ROOTS)}")
    is_sysctl = path.startswith(_SYSCTLS)
    name = canonical(path.removeprefix(_SYSCTLS)) if is_sysctl else path
    stand_in = Knob(
        id=name,
        kind="sysctl" if is_sysctl else "sysfs",
        value=ValueSpec(type="text"),
        takes_effect="now",
        risk="caution",
        what="",
        price="",
        places=(path,),
        default_note="the catalog lacks it",
        verify=None if is_sysctl else "choice",
    )
    return Address(name), stand_in
