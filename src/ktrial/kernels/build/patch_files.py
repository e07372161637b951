# SPDX-License-Identifier: Apache-2.0
"""Recognises well-known patch sets by their traces in a kernel's files, in a tree or in a patch."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ktrial.kernels.source import PatchSet

#: The traces of each patch set: file and pattern, whose group is the version if the file states it.
_SIGNS: Mapping[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "BORE": (
        ("include/linux/sched/bore.h", re.compile(r'#define\s+SCHED_BORE_VERSION\s+"([\w.-]+)"')),
        ("kernel/sched/bore.c", re.compile(r'#define\s+SCHED_BORE_VERSION\s+"([\w.-]+)"')),
        ("kernel/sched/core.c", re.compile(r"BORE \([^)]*\) CPU Scheduler modification ([0-9][\w.-]*)")),
        ("kernel/sched/fair.c", re.compile(r"BORE \([^)]*\) CPU Scheduler modification ([0-9][\w.-]*)")),
        ("init/Kconfig", re.compile(r"^config SCHED_BORE$", re.MULTILINE)),
    ),
    "BBRv3": (
        ("net/ipv4/tcp_bbr.c", re.compile(r"#define\s+BBR_VERSION\s+3\b")),
        ("net/ipv4/tcp_bbr3.c", re.compile(r"#define\s+BBR_VERSION\s+3\b")),
    ),
    "CachyOS": (
        ("localversion.10-cachyos", re.compile(r"-?cachyos[-.]?([\w.]*)")),
        ("init/Kconfig", re.compile(r"^config CACHY$", re.MULTILINE)),
    ),
    "Zen": (
        ("localversion-zen", re.compile(r"-?(zen\d[\w.]*)")),
        ("init/Kconfig", re.compile(r"^config ZEN_INTERACTIVE$", re.MULTILINE)),
    ),
    "PREEMPT_RT": (("localversion-rt", re.compile(r"-?(rt\d[\w.]*)")),),
    "Project C (BMQ, PDS)": (("init/Kconfig", re.compile(r"^menuconfig SCHED_ALT$", re.MULTILINE)),),
}
#: The files to search.
FILES = tuple(dict.fromkeys(path for signs in _SIGNS.values() for path, _ in signs))


def families(files: Mapping[str, str]) -> tuple[PatchSet, ...]:
    """Return the patch sets that left traces in `files`, which maps paths to texts."""
    found = []
    for name, signs in _SIGNS.items():
        matches = [match for path, pattern in signs if (match := pattern.search(files.get(path, "")))]
        if matches:
            versions = (match[1] for match in matches if match.groups() and match[1])
            found.append(PatchSet(name, next(versions, None)))
    return tuple(found)
