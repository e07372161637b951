# SPDX-License-Identifier: Apache-2.0
"""The options of all modules, which Ansible checks before anything runs."""

from __future__ import annotations

from typing import Any

_COMMON: dict[str, Any] = {"keep_agent": {"type": "bool", "default": False}}
_SETTINGS: dict[str, Any] = {
    **_COMMON,
    "settings": {"type": "dict", "default": {}},
    "profiles": {"type": "list", "elements": "str", "default": []},
    "allow_dangerous": {"type": "bool", "default": False},
}

FACTS: dict[str, Any] = {**_COMMON, "prefixes": {"type": "list", "elements": "str", "default": []}}
PLAN: dict[str, Any] = _SETTINGS
APPLY: dict[str, Any] = {**_SETTINGS, "revert_after": {"type": "str"}, "keep_going": {"type": "bool", "default": False}}
VERIFY: dict[str, Any] = {**_COMMON, "transaction": {"type": "int"}}
REVERT: dict[str, Any] = {
    **_COMMON,
    "transaction": {"type": "int"},
    "newer_than": {"type": "int"},
    "force": {"type": "bool", "default": False},
}
REVERT_RULES: dict[str, Any] = {"mutually_exclusive": [("transaction", "newer_than")]}
KEEP: dict[str, Any] = {
    **_SETTINGS,
    "trial": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "next_boot": {"type": "bool", "default": False},
    "anyway": {"type": "bool", "default": False},
    "loader": {"type": "str"},
    "allow_security": {"type": "list", "elements": "str", "default": []},
    "store": {"type": "str"},
}
TRIAL: dict[str, Any] = {
    **_COMMON,
    "file": {"type": "path"},
    "name": {"type": "str"},
    "state": {"type": "str", "choices": ["started", "collected", "stopped", "watched"], "default": "started"},
    "fence": {"type": "int"},
    "fleet": {"type": "str"},
    "output": {"type": "path"},
    "when_idle": {"type": "bool", "default": False},
    "store": {"type": "str"},
}
TRIAL_RULES: dict[str, Any] = {
    "required_one_of": [("file", "name")],
    "required_if": [("state", "watched", ("fence", "fleet", "output"))],
}
