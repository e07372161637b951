# SPDX-License-Identifier: Apache-2.0
"""The files of a module for rooted phones: scripts that are the same in every module, and the settings."""

from __future__ import annotations

import hashlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ktrial import __version__
from ktrial.tuning.exports.model import LastingProfile, LastingSetting, PhoneValue
from ktrial.tuning.exports.phone.page import page
from ktrial.tuning.exports.text import comment, file_refusal, file_text, heading, one_line, path_refusal, shell_quoted
from ktrial.tuning.knobs.knob import Knob

#: Scripts that every module has.
_SCRIPTS = (*("functions.sh", "post-fs-data.sh", "service.sh", "uninstall.sh", "action.sh", "customize.sh"),)
_INSTALLER = "META-INF/com/google/android"
#: Knob's rule -> how functions.sh compares a value that was read back.
_RULES = {"boolean": "bool", "choice": "choice", "token": "feature", "mask": "mask"}


def phone_refusal(setting: LastingSetting) -> str | None:
    """Return why a module cannot hold the setting; None if it can."""
    paths = (path_refusal(one) for one in _at_each_place(setting))
    return file_refusal(setting) or next((why for why in paths if why is not None), None)


def module_id(profile: LastingProfile) -> str:
    """Return the module's id, which is also the name of its folder on the phone."""
    return f"ktrial-{profile.name}"


def module_files(profile: LastingProfile, *, installer: bool, web_page: bool) -> dict[str, str]:
    """Return the module's files by path.

    `installer` adds the installer that Magisk needs, `web_page` the page that KernelSU and APatch show.
    """
    files = {name: _script(name) for name in _SCRIPTS}
    body = file_text([*_names(profile.settings), "settings() {", *_calls(profile.settings), "}"])
    version = f"{__version__}-{_digest(body, *files.values())}"
    head = file_text([*heading(profile), f"ID={shell_quoted(module_id(profile))}", f"VERSION={shell_quoted(version)}"])
    files["settings.sh"] = head + body
    files["module.prop"] = _properties(profile, version)
    if installer:
        files[f"{_INSTALLER}/update-binary"] = _script("update-binary.sh")
        files[f"{_INSTALLER}/updater-script"] = "#MAGISK\n"
    if web_page:
        files["webroot/index.html"] = page(profile, module_id(profile))
        files["webroot/log.txt"] = "no log yet: restart the phone and wait until the settings are applied\n"
    return dict(sorted(files.items()))


def _script(name: str) -> str:
    return (pkgutil.get_data(__package__, name) or b"").decode()


def _digest(*texts: str) -> str:
    """Return a short digest of everything that the scripts do; the reasons do not affect it."""
    lines = (line for text in texts for line in text.split("\n") if not line.lstrip().startswith("#"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def _properties(profile: LastingProfile, version: str) -> str:
    number = sum(int(part) * 100**place for place, part in enumerate(reversed(__version__.split(".")[:3])))
    count = len(profile.settings)
    what = f"{count} kernel setting{'s'[: count != 1]}, applied after each boot"
    lines = (
        f"id={module_id(profile)}",
        f"name={one_line(f'ktrial: {profile.title}')[:60]}",
        f"version={version}",
        f"versionCode={number}",
        "author=ktrial",
        f"description={what}. Log: /data/adb/ktrial/{module_id(profile)}/log",
    )
    return file_text(lines)


def _calls(settings: Iterable[LastingSetting]) -> Iterator[str]:
    given = {setting.address for setting in settings}
    for setting in settings:
        value = setting.on_phone or PhoneValue("value", setting.text)
        yield from comment(setting, indent="    ")
        yield _call("setting", setting, value)
        for couple in setting.couples:
            other = msgspec.structs.replace(setting, knob=couple, place=None, pattern=_shared_pattern(setting, couple))
            if other.address not in given:
                yield _call("also", other, PhoneValue("value", ""))


def _shared_pattern(setting: LastingSetting, couple: Knob) -> str | None:
    """Return the setting's pattern for a coupled knob; None unless both knobs have the same kind of devices."""
    return setting.pattern if couple.placeholders == setting.knob.placeholders else None


def _call(function: str, setting: LastingSetting, value: PhoneValue) -> str:
    """Return a line of settings.sh: KNOB RULE RECIPE ARGUMENT BESIDE PATTERN…."""
    is_boost = setting.knob.id.endswith(".input_boost_freq")
    rule = "pairs" if is_boost else _RULES.get(setting.knob.rule, "same")
    words = (setting.knob.id, rule, value.recipe, value.argument, value.beside)
    paths = (one.path for one in _at_each_place(setting))
    return f"    {function} {' '.join(map(shell_quoted, (*words, *paths)))}"


def _at_each_place(setting: LastingSetting) -> tuple[LastingSetting, ...]:
    if setting.place is not None:
        return (setting,)
    return tuple(msgspec.structs.replace(setting, place=place) for place in setting.knob.files)


def _names(settings: Iterable[LastingSetting]) -> list[str]:
    """Return the names to look for in the scripts of other modules, one a line."""
    found: dict[str, None] = {}
    for setting in settings:
        for place in setting.knob.files:
            folder, _, name = place.rpartition("/")
            parent = folder.rpartition("/")[2]
            if "_" in name or "-" in name:
                found[name] = None
            elif "{" not in parent:
                found[f"{parent}/{name}"] = None
                if place.startswith("/proc/sys/"):
                    found[f"{parent}.{name}"] = None
    return ["NAMES='" + "\n".join(name.replace("'", "") for name in found) + "'"]


def zip_entries(files: Mapping[str, str]) -> Iterator[tuple[str, bytes, int]]:
    """Yield path, content and mode of each file of the zip."""
    for path, text in files.items():
        yield path, text.encode(), 0o755 if text.startswith("#!") else 0o644
