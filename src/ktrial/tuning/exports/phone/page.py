# SPDX-License-Identifier: Apache-2.0
"""The page that KernelSU and APatch show for a module: settings with reasons, and the log. No script, no network."""

from __future__ import annotations

from ktrial.kit.html_tags import Markup, render, tag
from ktrial.tuning.exports.model import LastingProfile

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'"
_STYLE = Markup(
    ":root{color-scheme:light dark}body{font:16px/1.4 sans-serif;margin:1em;overflow-wrap:anywhere}"
    "dt{font-weight:bold;margin-top:.8em}dd{margin:0 0 0 1em}iframe{width:100%;height:60vh;border:1px solid gray}"
)


def page(profile: LastingProfile, name: str) -> str:
    """Return the page as HTML; `name` is the folder of the module's log below /data/adb/ktrial."""
    rows = [
        (tag("dt", f"{one.address} = {one.text}"), [tag("dd", reason) for reason in one.reasons])
        for one in profile.settings
    ]
    state = f"/data/adb/ktrial/{name}"
    body = tag(
        "body",
        tag("h1", profile.title),
        tag("p", "Written by ktrial export. This page changes nothing and needs no network."),
        tag("h2", "Log of the last boot"),
        tag("iframe", src="log.txt", title="log of the last boot"),
        tag("p", f"The whole log is in {state}/log; the seconds to wait after a boot are in {state}/delay."),
        tag("h2", "Settings"),
        tag("dl", rows),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("meta", name_="viewport", content="width=device-width"),
        tag("title", f"ktrial: {profile.title}"),
        tag("style", _STYLE),
    )
    return "<!DOCTYPE html>\n" + render(tag("html", head, body, lang="en")) + "\n"
