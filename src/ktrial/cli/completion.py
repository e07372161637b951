# SPDX-License-Identifier: Apache-2.0
"""Names for shell completion: knobs, profiles, suites, trials and sessions, including the user's own.

A word that may also name a file is completed as a file if no name fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from ktrial.kit.errors import KtrialError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ktrial.cli.app import App

Names = Callable[["App"], Iterable[str]]


def _trials(app: App) -> list[str]:
    return [one.trial for one in app.trials.all()]


def _sessions(app: App) -> list[str]:
    return [one.session for one in app.store.sessions()]


def _labels_and_sessions(app: App) -> set[str]:
    return {name for one in app.store.sessions() for name in (one.label, one.session) if name}


def _others(app: App) -> set[str]:
    """Return the signers and bundles of other people's verdicts."""
    from ktrial.studies.ledger.others import decode_others

    file = app.ledger_file.of_others()
    data = file.read()
    trials = () if data is None else decode_others(data, file.path).trials
    return {name for one in trials for name in (one.signer, one.bundle) if name is not None}


def _completer(names: Names) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return _starting(incomplete, names, ctx)

    return complete


def _completer_or_files(names: Names) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        starting = [CompletionItem(name) for name in _starting(incomplete, names, ctx)]
        return starting or [CompletionItem(incomplete, type="file")]

    return complete


def _starting(incomplete: str, names: Names, ctx: click.Context) -> list[str]:
    """Return the names that start with `incomplete`; none on an error, because completion must not print one."""
    from ktrial.cli.app import App

    given = ctx.find_root().params
    app = App(may_ask=False, catalogs=given.get("catalogs") or (), store=given.get("store"))
    try:
        return sorted(name for name in names(app) if name.startswith(incomplete))
    except KtrialError:
        return []
    finally:
        app.close()


def _boot_words(app: App) -> Iterable[str]:
    """Return kernel arguments, and the profiles that contain kernel arguments."""
    from ktrial.tuning.knobs.profile import flatten

    for knob in app.catalog.knobs.values():
        if knob.kind == "boot":
            yield knob.short_name if knob.value.type == "bool" else f"{knob.short_name}="
    for name in app.catalog.profiles:
        if any(str(setting.knob).startswith("boot:") for setting in flatten(name, app.catalog.profiles)):
            yield name


knob_names = _completer(lambda app: app.catalog.knobs)
profile_names = _completer(lambda app: app.catalog.profiles)
measurable_names = _completer(lambda app: (*app.suites, *app.benchmarks))
format_names = _completer(lambda app: app.importers)
session_names = _completer(_sessions)
trial_names = _completer(_trials)
bundle_names = _completer(lambda app: (*_trials(app), *_sessions(app)))
retest_names = _completer(lambda app: (*_trials(app), *app.catalog.knobs))
other_sources = _completer(_others)
goal_names = _completer(lambda app: app.goals)
goal_words = _completer(lambda app: (*app.goals, *app.catalog.profiles))
published_names = _completer_or_files(_trials)
result_names = _completer_or_files(_labels_and_sessions)
#: Profiles, and knobs followed by `=`.
setting_words = _completer_or_files(lambda app: (*app.catalog.profiles, *(f"{knob}=" for knob in app.catalog.knobs)))
boot_words = _completer(_boot_words)
lasting_words = _completer_or_files(
    lambda app: (*app.catalog.profiles, *_trials(app), *(f"{knob}=" for knob in app.catalog.knobs))
)


def tool_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ktrial.bench.tool_files import load_recipes

    return [name for name in load_recipes() if name.startswith(incomplete)]
