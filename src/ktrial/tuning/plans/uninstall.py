# SPDX-License-Identifier: Apache-2.0
"""Undo everything on the machine, then take unit and journal away."""

from __future__ import annotations

import msgspec

from ktrial.kit.errors import KtrialError
from ktrial.machine.ports import Machine
from ktrial.machine.transactions import Reverted, RevertReply, decode_reply, is_open, recover


class Uninstalled(msgspec.Struct, frozen=True):
    """What was reverted and removed."""

    reverted: tuple[Reverted, ...]
    files: tuple[str, ...]

    @property
    def failed(self) -> bool:
        return is_open(self.reverted)


def uninstall(root: Machine, *, force: bool) -> Uninstalled:
    """Recover, revert all, remove unit and journal. The journal stays while something could not be put back."""
    recovered = recover(root).transactions
    reverted = decode_reply("revert", root.request("revert", select="all", force=force), RevertReply).transactions
    gone = Uninstalled((*recovered, *reverted), tuple(root.request("recovery", install=False)["files"]))
    if gone.failed:
        raise KtrialError(
            "not everything could be put back, so the journal with the old values is kept",
            hint="`ktrial status` shows what is left, and how it is ended",
        )
    forgotten = root.request("forget")["files"]
    return msgspec.structs.replace(gone, files=(*gone.files, *forgotten))
