# SPDX-License-Identifier: Apache-2.0
"""Live trials of `ktrial fleet`: checks before the start, and processes that end with their coordinator."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import cache
from typing import TYPE_CHECKING

from ktrial.agent.user_folders import state_folder
from ktrial.cli.shared.live_control import desk_folder
from ktrial.fleet.live import LiveMachines, LiveStore, refuse_shared, why_unread
from ktrial.fleet.store import LEASE_S, StoredFleets
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.live.control import running_trials
from ktrial.results.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ktrial.cli.app import App
    from ktrial.fleet.ansible import Ansible
    from ktrial.fleet.file import FleetTrial
    from ktrial.fleet.log import FleetBegan

#: Seconds between two looks at whether the coordinator is still there.
_LOOK_S = 2.0


def live_machines(
    app: App, ansible: Ansible, began: FleetBegan, folder: Path, find: Callable[[str], str | None], fence: int
) -> LiveMachines:
    """Return the machines of a live trial, each measured by a process that ends if another coordinator takes over."""
    store = LiveStore(find, app.trials.log, lambda: running_trials(desk_folder()))
    return LiveMachines(ansible, began, folder, store, fence=fence)


def unread_machines(app: App, trial: FleetTrial, facts: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the machines whose metrics this machine cannot read, with the reason.

    Raise BadInput if two machines would have the same series, or if no machine has readable metrics.
    """
    refuse_shared(trial, facts)
    found = {host: why for host, known in facts.items() if (why := why_unread(trial, host, known, app.clock))}
    if found and len(found) == len(facts):
        host, why = next(iter(found.items()))
        raise BadInput(
            f"cannot read the metrics of any machine, for example of {host}: {why}",
            hint="check the metrics in the trial's file (docs/live-sources.md)",
        )
    return found


def end_with_coordinator(app: App, fleet: str, fence: int) -> None:
    """Send this process SIGTERM when the coordinator with this `fence` no longer holds the fleet's lease.

    Each coordinator that takes over gets a higher number as its fence.

    While the store is unreachable, send SIGTERM when the coordinator's lease would have expired.
    """

    @cache
    def database() -> Database:
        return Database.open(app.store_path or str(state_folder() / "results.db"))

    def await_end() -> None:
        fleets, held_s = StoredFleets(database), time.monotonic()
        while time.monotonic() - held_s < LEASE_S:
            try:
                if not fleets.is_held(fleet, fence):
                    return
                held_s = time.monotonic()
            except KtrialError as error:
                app.say(f"cannot see whether {fleet} still has its coordinator: {error.message}")
            time.sleep(_LOOK_S)

    def watch() -> None:
        try:
            await_end()
            app.say(f"the coordinator of {fleet} is gone")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="coordinator", daemon=True).start()
