# SPDX-License-Identifier: Apache-2.0
"""NixOS: a module with sysctls, kernel arguments, modules, udev rules, tmpfiles, zram and Kconfig."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

import msgspec

from ktrial.tuning.exporters import kconfig, modprobe_d, systemd_unit, tmpfiles_d, udev, zram_generator
from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting
from ktrial.tuning.exports.text import (
    boot_words,
    comment,
    file_text,
    heading,
    path_refusal,
    shell_quoted,
    unwritable,
    word_refusal,
)

NAME = "nixos"
WHAT = "A NixOS module: sysctls, kernel arguments, modules, udev rules, files of sysfs, zram, kernel configuration."
FORMS: frozenset[Form] = frozenset(
    {"sysctl", "sysfs", "device", "cgroup", "debugfs", "module", "zram", "boot", "kconfig"}
)
NEXT = "add the file to the imports of your configuration and run `nixos-rebuild switch`"
#: Wins over plain definitions (100) and loses to mkForce (50). Two values of equal priority would fail the evaluation.
_PRIORITY = 75


def refusal(setting: LastingSetting) -> str | None:
    if setting.form in {"sysctl", "boot", "kconfig"}:
        plain = {"sysctl": path_refusal, "boot": word_refusal, "kconfig": kconfig.refusal}[setting.form](setting)
        return plain or unwritable(setting.text)
    if setting.form == "zram" and setting.knob.id not in {"zram:disksize", "zram:comp_algorithm"}:
        return "zramSwap of NixOS has size and algorithm only"
    if setting.form == "zram" and zram_generator.device_of(setting) != "zram0":
        return "zramSwap of NixOS always begins with zram0"
    if setting.form == "zram":
        return zram_generator.refusal(setting)
    objections = [one.refusal(setting) for one in _files_of(setting)]
    return None if None in objections else objections[0]


def _files_of(setting: LastingSetting) -> tuple[ModuleType, ...]:
    return tuple(one for one in _NATIVE if setting.form in one.FORMS)


def write(profile: LastingProfile) -> dict[str, str]:
    lines = [*heading(profile, f"Priority {_PRIORITY} wins over plain definitions and loses to lib.mkForce.")]
    lines += ["{ lib, ... }:", "{"]
    places: dict[str, list[LastingSetting]] = {}
    for setting in profile.settings:
        places.setdefault(_place(setting), []).append(setting)
    for place, settings in places.items():
        reasons = [line for setting in settings for line in comment(setting, indent="  ")]
        lines += [*reasons, *_WRITERS[place](profile, settings), ""]
    return {f"ktrial-{profile.name}.nix": file_text([*"\n".join(lines).rstrip().split("\n"), "}"])}


def _place(setting: LastingSetting) -> str:
    if setting.form in _WRITERS:
        return setting.form
    return str(next(one for one in _files_of(setting) if one.refusal(setting) is None).NAME)


def nix_string(text: str) -> str:
    """Return the Nix string literal for exactly this text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${").replace("\n", "\\n")
    return f'"{escaped}"'


def _override(name: str, text: str) -> str:
    return f"  {name} = lib.mkOverride {_PRIORITY} {text};"


def _sysctls(profile: LastingProfile, settings: Sequence[LastingSetting]) -> list[str]:
    return [_override(f"boot.kernel.sysctl.{nix_string(one.sysctl_key)}", nix_string(one.text)) for one in settings]


def _arguments(profile: LastingProfile, settings: Sequence[LastingSetting]) -> list[str]:
    words = " ".join(map(nix_string, boot_words(settings)))
    return [f"  boot.kernelParams = lib.mkAfter [ {words} ];"]


def _zram(profile: LastingProfile, settings: Sequence[LastingSetting]) -> list[str]:
    lines = [_override("zramSwap.enable", "true")]
    for one in settings:
        if one.knob.id == "zram:disksize":  # the limit in bytes decides, whatever the share of memory is
            lines += [_override("zramSwap.memoryPercent", "1000"), _override("zramSwap.memoryMax", one.text)]
        else:
            lines.append(_override("zramSwap.algorithm", nix_string(one.text)))
    return lines


def _options(profile: LastingProfile, settings: Sequence[LastingSetting]) -> list[str]:
    lines = ["  boot.kernelPatches = [", "    {", f"      name = {nix_string(f'ktrial-{profile.name}')};"]
    lines += ["      patch = null;", "      structuredExtraConfig = with lib.kernel; {"]
    for setting in settings:
        for name, value in kconfig.options_of(setting).items():
            text = {"y": "yes", "n": "no"}.get(value, f"(freeform {nix_string(value)})")
            lines.append(f"        {nix_string(name)} = lib.mkForce {text};")
    return [*lines, "      };", "    }", "  ];"]


def _native_lines(native: ModuleType, profile: LastingProfile, settings: Sequence[LastingSetting]) -> list[str]:
    """Return the lines of a native file as strings of Nix, without comments."""
    (text,) = native.write(msgspec.structs.replace(profile, settings=tuple(settings))).values()
    return [f"    {nix_string(line)}" for line in text.splitlines() if line and not line.startswith("#")]


def _lines_option(name: str, native: ModuleType) -> Writer:
    def write_lines(profile: LastingProfile, settings: Sequence[LastingSetting]) -> list[str]:
        return [
            f'  {name} = lib.mkAfter (lib.concatStringsSep "\\n" [',
            *_native_lines(native, profile, settings),
            "  ]);",
        ]

    return write_lines


def _tmpfiles(profile: LastingProfile, settings: Sequence[LastingSetting]) -> list[str]:
    rules = _native_lines(tmpfiles_d, profile, settings)
    return ["  systemd.tmpfiles.rules = lib.mkAfter [", *rules, "  ];"]


def _service(profile: LastingProfile, settings: Sequence[LastingSetting]) -> list[str]:
    return [
        f"  systemd.services.{nix_string(f'ktrial-{profile.name}')} = {{",
        '    wantedBy = [ "multi-user.target" ];',
        '    after = [ "systemd-tmpfiles-setup.service" "sys-kernel-debug.mount" ];',
        '    serviceConfig = { Type = "oneshot"; RemainAfterExit = true; };',
        '    script = lib.concatStringsSep "\\n" [',
        *(f"      {nix_string(_command(one))}" for one in settings),
        "    ];",
        "  };",
    ]


def _command(setting: LastingSetting) -> str:
    write_one = f"printf '%s\\n' {shell_quoted(setting.text)}"
    if not setting.is_glob:
        return f"{write_one} > {setting.path}"
    return f'for file in {setting.path}; do if [ -e "$file" ]; then {write_one} > "$file"; fi; done'


Writer = Callable[[LastingProfile, Sequence[LastingSetting]], list[str]]
#: Form, or name of a native form -> the function that writes its settings.
_WRITERS: dict[str, Writer] = {
    "sysctl": _sysctls,
    "boot": _arguments,
    "zram": _zram,
    "kconfig": _options,
    udev.NAME: _lines_option("services.udev.extraRules", udev),
    modprobe_d.NAME: _lines_option("boot.extraModprobeConfig", modprobe_d),
    tmpfiles_d.NAME: _tmpfiles,
    systemd_unit.NAME: _service,
}
#: Other settings go to the first of these that can express them.
_NATIVE: tuple[ModuleType, ...] = (udev, modprobe_d, tmpfiles_d, systemd_unit)
