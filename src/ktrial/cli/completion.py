# SPDX-License-Identifier: Apache-2.0
"""Names for the shell's completion: knobs, profiles, suites and benchmarks, a user's own included."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from ktrial.kit.errors import KtrialError

if TYPE_CHECKING:
    from ktrial.cli.app import App


def knob_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: app.catalog.knobs, ctx)


def profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: app.catalog.profiles, ctx)


def setting_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Profiles, and knobs ready for their value."""
    return _starting(incomplete, lambda app: (*app.catalog.profiles, *(f"{knob}=" for knob in app.catalog.knobs)), ctx)


def measurable_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: (*app.suites, *app.benchmarks), ctx)


def tool_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ktrial.bench.tool_files import load_recipes

    return [name for name in load_recipes() if name.startswith(incomplete)]


def format_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: app.importers, ctx)


def session_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: (one.session for one in app.store.sessions()), ctx)


def result_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, _labels_and_sessions, ctx)


def _labels_and_sessions(app: App) -> set[str]:
    return {name for one in app.store.sessions() for name in (one.label, one.session) if name}


def _starting(incomplete: str, names: Callable[[App], Iterable[str]], ctx: click.Context) -> list[str]:
    """Return those that go on from what was typed; none where the catalog cannot be read: completion says nothing."""
    from ktrial.cli.app import App

    given = ctx.find_root().params
    app = App(may_ask=False, catalogs=given.get("catalogs") or (), store=given.get("store"))
    try:
        return sorted(name for name in names(app) if name.startswith(incomplete))
    except KtrialError:
        return []
    finally:
        app.close()
