# SPDX-License-Identifier: Apache-2.0
"""Names for the shell's completion: knobs, profiles, suites, trials and sessions, a user's own included.

A word that may also name a file is completed as one when no name fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from ktrial.kit.errors import KtrialError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ktrial.cli.app import App


def knob_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: app.catalog.knobs, ctx)


def profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: app.catalog.profiles, ctx)


def setting_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return profiles, and knobs ready for their value; or files."""
    words = lambda app: (*app.catalog.profiles, *(f"{knob}=" for knob in app.catalog.knobs))  # noqa: E731
    return _or_files(_starting(incomplete, words, ctx), incomplete)


def measurable_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: (*app.suites, *app.benchmarks), ctx)


def tool_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ktrial.bench.tool_files import load_recipes

    return [name for name in load_recipes() if name.startswith(incomplete)]


def format_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: app.importers, ctx)


def session_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: (one.session for one in app.store.sessions()), ctx)


def trial_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, _trials, ctx)


def bundle_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: (*_trials(app), *(one.session for one in app.store.sessions())), ctx)


def retest_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: (*_trials(app), *app.catalog.knobs), ctx)


def published_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _or_files(_starting(incomplete, _trials, ctx), incomplete)


def result_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _or_files(_starting(incomplete, _labels_and_sessions, ctx), incomplete)


def goal_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: app.goals, ctx)


def goal_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _starting(incomplete, lambda app: (*app.goals, *app.catalog.profiles), ctx)


def _trials(app: App) -> list[str]:
    return [one.trial for one in app.trials.all()]


def _labels_and_sessions(app: App) -> set[str]:
    return {name for one in app.store.sessions() for name in (one.label, one.session) if name}


def _or_files(names: list[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


def _starting(incomplete: str, names: Callable[[App], Iterable[str]], ctx: click.Context) -> list[str]:
    """Return those that go on from what was typed; none if the catalog cannot be read: completion says nothing."""
    from ktrial.cli.app import App

    given = ctx.find_root().params
    app = App(may_ask=False, catalogs=given.get("catalogs") or (), store=given.get("store"))
    try:
        return sorted(name for name in names(app) if name.startswith(incomplete))
    except KtrialError:
        return []
    finally:
        app.close()
