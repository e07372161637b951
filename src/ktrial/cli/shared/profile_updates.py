# SPDX-License-Identifier: Apache-2.0
"""Kept profiles that an update of ktrial changed: `ktrial drift` shows the difference, `keep --accept` writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ktrial.kit.errors import KtrialError, UnknownName
from ktrial.tuning.lasting.kept_files import kept_entries
from ktrial.tuning.lasting.model import FORMS, FileChange, Form, KeepPlan, KeptFile, LastingEntry
from ktrial.tuning.lasting.profile_update import ProfileOutcome, ProfileUpdate, setting_updates
from ktrial.tuning.lasting.sources import KeptSources, definition, kept_sources
from ktrial.tuning.plans.model import Plan

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.machine.transactions import Status

Kept = Mapping[Form, KeptFile]


def profile_updates(app: App, session: AgentSession, status: Status, kept: Kept) -> list[ProfileUpdate]:
    """Return the kept profiles that have changed, and the effect of each change on this machine."""
    found = []
    for name, sources in _changed_profiles(app, status, kept):
        if name not in app.catalog.profiles:
            found.append(ProfileUpdate(profile=name, problem="is gone from the catalog; its settings stay kept"))
            continue
        try:
            update, _ = _compare(app, session, status, kept, name, sources)
        except KtrialError as error:
            update = ProfileUpdate(profile=name, problem=f"has changed since, but cannot be compared: {error.message}")
        if update.settings or update.problem:
            found.append(update)
    return found


def _changed_profiles(app: App, status: Status, kept: Kept) -> list[tuple[str, KeptSources]]:
    """Return the profiles of kept settings whose definition has changed."""
    sources = kept_sources(status)
    addresses = {address for entry in kept_entries(kept) for address in entry.values}
    names = {name for address, name in sources.origins.items() if name is not None and address in addresses}
    profiles = app.catalog.profiles
    return [
        (name, sources)
        for name in sorted(names & sources.profiles.keys())
        if name not in profiles or definition(name, profiles) != sources.profiles[name]
    ]


def _compare(
    app: App, session: AgentSession, status: Status, kept: Kept, name: str, sources: KeptSources
) -> tuple[ProfileUpdate, KeepPlan]:
    """Plan the current version of the profile; return the difference from what is kept, and the whole plan."""
    from ktrial.cli.shared.keeping import plan_words
    from ktrial.tuning.knobs.profile import flatten
    from ktrial.tuning.plans.model import Request
    from ktrial.tuning.plans.plan import resolve
    from ktrial.tuning.plans.resolve import context_for

    catalog = app.catalog
    keep = plan_words(app, session, [name], status, kept, allow_dangerous=False)
    requests = [Request(f"profile {name}", flatten(name, catalog.profiles))]
    context = context_for(session, catalog, requests, session.facts())
    planned = ProfileOutcome(
        entries=keep.entries,
        left_out=frozenset(one.address for one in keep.left_out),
        refusals=resolve(name, requests, context).refusals,
        states=context.states,
    )
    values = {address: value for entry in kept_entries(kept) for address, value in entry.values.items()}
    own = {address: value for address, value in values.items() if sources.origins.get(address) == name}
    before, after = sources.profiles[name], definition(name, catalog.profiles)
    return ProfileUpdate(profile=name, settings=setting_updates(before, after, planned, own, values)), keep


def plan_accept(app: App, session: AgentSession, names: Sequence[str], status: Status, kept: Kept) -> KeepPlan:
    """Return the plan that accepts changes of the kept profiles `names`, or of all kept profiles if `names` is empty.

    Without changes, the plan writes nothing.
    """
    sources = kept_sources(status)
    for name in names:
        if name not in sources.profiles:
            raise UnknownName("kept profile", name, sources.profiles, hint="run `ktrial status` to see kept profiles")
    plans = []
    for name, _ in _changed_profiles(app, status, kept):
        if name in app.catalog.profiles and (not names or name in names):
            update, keep = _compare(app, session, status, kept, name, sources)
            if update.settings:
                plans.append((update, keep))
    if not plans:
        return KeepPlan(live=Plan("--accept", (), (), ()), files=(), entries=kept_entries(kept))
    return _join_plans(app, session, plans, status, kept)


def _join_plans(
    app: App, session: AgentSession, plans: Sequence[tuple[ProfileUpdate, KeepPlan]], status: Status, kept: Kept
) -> KeepPlan:
    """Return one plan that makes only the changes of these plans."""
    from ktrial.cli.shared.unkeeping import old_values
    from ktrial.tuning.lasting.keep_plan import guarded_words

    updates = [one for update, _ in plans for one in update.settings]
    wanted = {one.address for one in updates if one.now is not None}
    dropped = {one.address for one in updates if one.now is None}
    names = [update.profile for update, _ in plans]
    entries = tuple(entry for _, keep in plans for entry in keep.entries if entry.values.keys() & wanted)
    changes = [change for _, keep in plans for change in keep.live.changes if change.address in wanted]
    has_zram = any(entry.form == "zram-generator" for entry in entries)
    live = old_values(app, session, dropped, status)
    live = replace(
        live,
        title=f"--accept {' '.join(names)}",
        changes=(*changes, *live.changes),
        zram=next((keep.live.zram for _, keep in plans if keep.live.zram is not None), None) if has_zram else None,
    )
    origins = {
        one.address: update.profile if one.now is not None else None for update, _ in plans for one in update.settings
    }
    files = tuple(_files(app, kept, entries, dropped))
    return KeepPlan(
        live=live,
        files=files,
        entries=entries,
        rivals=tuple(one for _, keep in plans for one in keep.rivals if one.address in wanted),
        guarded=guarded_words(files, kept, app.catalog.knobs),
        sources={"profiles": {name: definition(name, app.catalog.profiles) for name in names}, "origins": origins},
    )


def _files(app: App, kept: Kept, entries: Sequence[LastingEntry], dropped: set[str]) -> Iterable[FileChange]:
    """Yield each changed file once, without the dropped entries and with the new ones."""
    from ktrial.tuning.lasting.keep_plan import file_changes, without

    fewer = {change.form: change for change in without(kept, dropped)}
    rest = dict(kept)
    for form, change in fewer.items():
        del rest[form]
        if change.after is not None:
            rest[form] = KeptFile(form, change.after, change.after)
    more = {change.form: change for change in file_changes(entries, rest, app.catalog.knobs)}
    for form in FORMS:
        found = more.get(form) or fewer.get(form)
        if found is not None:
            yield replace(found, before=kept[form].text if form in kept else None)
