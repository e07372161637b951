# SPDX-License-Identifier: Apache-2.0
"""Names that identify this machine and its users, and the secret from which their placeholders are derived."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from ktrial.kit.errors import KtrialError
from ktrial.kit.scrub import Identity

_SERIALS = (
    "sys/class/dmi/id/*_serial",
    "sys/class/dmi/id/product_uuid",
    "sys/block/*/device/serial",
    "sys/class/power_supply/*/serial_number",
    "sys/firmware/devicetree/base/serial-number",
    "etc/machine-id",
)
_MACS = "sys/class/net/*/address"
#: Range of user ids that belong to people; lower ones belong to the system.
_FIRST_USER, _LAST_USER = 1000, 60_000
_SALT_BYTES = 32
_REMEMBERED = "identity.json"


def identity(root: Path = Path("/")) -> Identity:
    """Return the machine's name, serial numbers and MAC addresses, as far as readable, and its users' names."""
    people = {entry.pw_name for entry in pwd.getpwall() if _FIRST_USER <= entry.pw_uid <= _LAST_USER}
    with contextlib.suppress(KeyError):
        people.add(pwd.getpwuid(os.geteuid()).pw_name)
    return Identity(
        host=(os.uname().nodename,),
        user=tuple(sorted(people - {"root"})),
        serial=tuple(sorted({text for pattern in _SERIALS for text in _read(root.glob(pattern))})),
        mac=tuple(sorted({text for text in _read(root.glob(_MACS)) if len(text) == 17 and set(text) - set("0:")})),
    )


def remember(folder: Path, hosts: set[str], users: set[str]) -> None:
    """Store the names of another machine and its users, so that ktrial replaces these names in published results."""
    from ktrial.kit import plain_json

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = plain_json.document({"host": sorted(hosts), "user": sorted(users - {"root"})}, indent=2)
    (folder / _REMEMBERED).write_bytes(content)


def with_hosts(own: Identity, hosts: Path) -> Identity:
    """Return this machine's names, and the names of the machines that ktrial has worked on over ssh."""
    import msgspec

    for file in sorted(hosts.glob(f"*/{_REMEMBERED}")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            noted = msgspec.json.decode(file.read_bytes(), type=Identity)
            own = Identity(
                host=tuple(dict.fromkeys((*own.host, *noted.host))),
                user=tuple(dict.fromkeys((*own.user, *noted.user))),
                serial=own.serial,
                mac=own.mac,
            )
    return own


def salt(path: Path) -> bytes:
    """Return the secret in the file `path`, which is created on first use.

    The secret gives a name the same placeholder in all bundles of a user.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        with contextlib.suppress(FileExistsError):
            if not path.exists():
                part.write_bytes(os.urandom(_SALT_BYTES))
                part.chmod(0o600)
                try:
                    os.link(part, path)
                finally:
                    part.unlink()
        return path.read_bytes()
    except OSError as error:
        hint = f"give this user read and write access to {path.parent}"
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            hint = "free some disk space"
        raise KtrialError(f"cannot create or read {path}: {error.strerror}", hint=hint) from None


def _read(paths: Iterable[Path]) -> Iterable[str]:
    for path in paths:
        with contextlib.suppress(OSError):
            text = path.read_bytes().strip(b"\0 \n").decode("utf-8", "replace")
            if text:
                yield text
