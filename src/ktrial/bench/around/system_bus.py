# SPDX-License-Identifier: Apache-2.0
"""Ask scx_loader over the D-Bus system bus which sched_ext schedulers it can start.

Only /sys/kernel/sched_ext shows which scheduler is in force.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ktrial.bench.around.session_bus import BusError, called, connected

LOADER, LOADER_PATH = "org.scx.Loader", "/org/scx/Loader"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_USUAL = "unix:path=/run/dbus/system_bus_socket"


def loader_schedulers(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the schedulers that scx_loader supports, without starting it. Raise BusError if it does not answer."""
    from jeepney import DBusAddress

    bus = connected(environment.get("DBUS_SYSTEM_BUS_ADDRESS") or _USUAL, "system bus")
    try:
        service = DBusAddress(LOADER_PATH, bus_name=LOADER, interface=_PROPERTIES)
        answer = called(bus, service, "Get", "ss", (LOADER, "SupportedSchedulers"))
    finally:
        bus.close()
    match answer:
        case (("as", [*names]),):
            return tuple(name for name in names if isinstance(name, str))
    raise BusError(f"{LOADER} answered with no list of schedulers")
