# SPDX-License-Identifier: Apache-2.0
"""Ask the desktop over the D-Bus session bus not to blank or lock the screen.

GNOME and other desktops ignore the `idle` inhibitor of systemd-inhibit, but respect `org.freedesktop.ScreenSaver`. The
request ends with the connection, even if ktrial crashes.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jeepney import DBusAddress, Message
    from jeepney.io.blocking import DBusConnection

_LIMIT_S = 5.0
_SCREEN = "org.freedesktop.ScreenSaver"
_SCREEN_PATH = "/org/freedesktop/ScreenSaver"


class BusError(Exception):
    """ktrial cannot reach the bus or the service on it; the message says why."""


class SessionDesktop:
    """Implements `bench.run.ports.Desktop` for the desktop on a session bus."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._bus: DBusConnection | None = None
        self._cookie: int | None = None

    def keep_awake(self, why: str) -> str | None:
        try:
            self._bus = connected(self._address)
            found = called(self._bus, _desktop(), "Inhibit", "ss", ("ktrial", why))
            if len(found) != 1 or not isinstance(found[0], int):
                raise BusError(f"{_SCREEN} gave an invalid answer")
            self._cookie = found[0]
        except BusError as error:
            self.release()
            return str(error)
        return None

    def release(self) -> None:
        bus, self._bus = self._bus, None
        cookie, self._cookie = self._cookie, None
        if bus is None:
            return
        with suppress(BusError):
            if cookie is not None:
                called(bus, _desktop(), "UnInhibit", "u", (cookie,))
        bus.close()


def _desktop() -> DBusAddress:
    from jeepney import DBusAddress

    return DBusAddress(_SCREEN_PATH, bus_name=_SCREEN, interface=_SCREEN)


def connected(address: str, bus: str = "session bus") -> DBusConnection:
    """Return a connection that waits at most 5 s for a reply. Raise BusError if ktrial cannot reach the bus."""
    from jeepney.auth import AuthenticationError
    from jeepney.bus import get_bus
    from jeepney.io.blocking import DBusConnection, prep_socket
    from jeepney.wrappers import DBusErrorResponse

    class Limited(DBusConnection):  # type: ignore[misc] # the library has no types
        def send_and_get_reply(self, message: Message, *, timeout: float | None = None) -> Message:
            return super().send_and_get_reply(message, timeout=timeout or _LIMIT_S)

    try:
        there = prep_socket(get_bus(address), timeout=_LIMIT_S)
        try:
            return Limited(there)
        except BaseException:
            there.close()
            raise
    except AuthenticationError:
        raise BusError(f"the {bus} rejects this user") from None
    except OSError as error:
        raise BusError(f"cannot reach the {bus}: {error.strerror or str(error) or 'no answer'}") from None
    except (DBusErrorResponse, *_NONSENSE) as error:
        raise BusError(f"cannot use the {bus}: {error}") from None


#: What the library raises for something that is not a D-Bus message.
_NONSENSE = (ValueError, KeyError, IndexError, TypeError, struct.error)


def called(
    bus: DBusConnection, service: DBusAddress, member: str, signature: str, body: tuple[object, ...]
) -> tuple[Any, ...]:
    """Call a method of a service without starting the service, and return the reply's values.

    Raise BusError if the call fails, with the name of the service's error if there is one.
    """
    from jeepney import HeaderFields, MessageFlag, MessageType, new_method_call

    call = new_method_call(service, member, signature, body)
    call.header.flags |= MessageFlag.no_auto_start  # a question must not start a service
    try:
        reply = bus.send_and_get_reply(call)
    except (OSError, *_NONSENSE) as error:
        why = getattr(error, "strerror", None) or error
        raise BusError(f"{service.bus_name} did not answer: {why}") from None
    if reply.header.message_type is MessageType.error:
        name = reply.header.fields.get(HeaderFields.error_name, "an error without a name")
        raise BusError(f"{service.bus_name} reports {name}")
    return tuple(reply.body)


def session_desktop(environment: Mapping[str, str], runtime: Path = Path("/run/user")) -> SessionDesktop | None:
    """Return the desktop of this user; None if there is no session bus."""
    given = environment.get("DBUS_SESSION_BUS_ADDRESS", "")
    found = re.search(r"(?:^|;)(unix:(?:[^;]*,)?(?:path|abstract)=[^;]+)", given)
    if found is not None:
        return SessionDesktop(found[1])
    usual = runtime / str(os.geteuid()) / "bus"
    return SessionDesktop(f"unix:path={usual}") if usual.exists() else None
