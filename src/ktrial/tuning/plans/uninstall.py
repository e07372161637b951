# SPDX-License-Identifier: Apache-2.0
"""Undo all changes to the machine, then remove the recovery unit and the journal."""

from __future__ import annotations

import msgspec

from ktrial.kit.errors import KtrialError
from ktrial.machine.ports import Machine
from ktrial.machine.transactions import Reverted, RevertReply, decode_reply, is_open, recover


class Uninstalled(msgspec.Struct, frozen=True):
    """The reverted transactions, and the removed files."""

    reverted: tuple[Reverted, ...]
    files: tuple[str, ...]

    @property
    def failed(self) -> bool:
        return is_open(self.reverted)


def uninstall(root: Machine, *, force: bool) -> Uninstalled:
    """Recover, revert everything, and remove the recovery unit and the journal.

    If a value could not be restored, keep the journal and raise KtrialError.
    """
    recovered = recover(root).transactions
    reverted = decode_reply("revert", root.request("revert", select="all", force=force), RevertReply).transactions
    gone = Uninstalled((*recovered, *reverted), tuple(root.request("recovery", install=False)["files"]))
    if gone.failed:
        raise KtrialError(
            "cannot restore all values, so ktrial keeps the journal with the old values",
            hint="run `ktrial status` to see the remaining transactions and how to end them",
        )
    forgotten = root.request("forget")["files"]
    return msgspec.structs.replace(gone, files=(*gone.files, *forgotten))
