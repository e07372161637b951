# SPDX-License-Identifier: Apache-2.0
"""The formats of recordings: how to recognise each by its content, and its reader."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise

import msgspec

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.recordings import atop, ktrial_frames, micro_stutter, sadf, traces, vmstat
from ktrial.recordings import ktrial as ktrial_recording
from ktrial.recordings.frames import android, mangohud
from ktrial.recordings.model import Frames, Recording, Source

_HEAD_BYTES = 65_536
Reader = Callable[[bytes, str, float | None], Recording]


class Kind(msgspec.Struct, frozen=True):
    """A format: a check of the first bytes and the file name, and a reader."""

    what: str
    sniff: Callable[[bytes, str], bool]
    read: Reader


def _frames(data: bytes, name: str) -> Recording:
    """Read a log of MangoHud, whose clock begins with the first frame at an unknown time."""
    log = mangohud.read_mangohud(data, name)
    return _of_frames(name, 0.0, accumulate(log.frame_times_s), log.frame_times_s, is_cut=log.cut_off)


def _app_frames(data: bytes, name: str) -> Recording:
    """Read the frames of an Android app; a frame lasts from the moment at which it was due to begin."""
    log = android.read_framestats(data, name)
    return _of_frames(name, log.ends_s[0] - log.times_s[0], log.ends_s, log.times_s)


def _layer_frames(data: bytes, name: str) -> Recording:
    """Read when Android showed the frames of a layer; a frame lasts from the previous frame."""
    log = android.read_latency(data, name)
    return _of_frames(name, log.shown_s[0], log.shown_s[1:], [after - at for at, after in pairwise(log.shown_s)])


def _of_frames(
    name: str, begin_s: float, ends_s: Iterable[float], durations_s: Iterable[float], *, is_cut: bool = False
) -> Recording:
    frames = Frames(kind="frame", source="frames", ends_s=array("d", ends_s), durations_s=array("d", durations_s))
    return Recording(
        name=name,
        begin_s=begin_s,
        end_s=frames.ends_s[-1] if frames.ends_s else begin_s,
        ended="cut-off" if is_cut else "whole",
        sources=(Source(name="frames", state="active", seen=len(frames.ends_s)),),
        frames=frames,
    )


def _by_content(what: str, sniff: Callable[[bytes], bool], read: Callable[[bytes, str], Recording]) -> Kind:
    """Return a format that the first bytes identify and that needs no interval."""
    return Kind(what, lambda head, name: sniff(head), lambda data, name, interval_s: read(data, name))


KINDS: dict[str, Kind] = {
    "ktrial": _by_content("recording of ktrial watch", ktrial_recording.is_recording, ktrial_recording.read_recording),
    "ktrial-frames": _by_content(
        "frames beside a recording of ktrial watch", ktrial_frames.is_frames, ktrial_frames.read_frames
    ),
    "sadf": _by_content("JSON of sysstat (sadf -j)", sadf.is_sadf, sadf.read_sadf),
    "atop": _by_content("lines of atop -P ALL", atop.is_atop, atop.read_atop),
    "reclaim-lines": _by_content("lines of tracers in bpftrace", traces.is_trace, traces.read_trace),
    "suite-csv": Kind(
        "tables of the micro-stutter suite",
        micro_stutter.is_suite_table,
        lambda data, name, interval_s: micro_stutter.read_suite_table(data, name),
    ),
    "vmstat": Kind("output of vmstat", lambda head, name: vmstat.is_vmstat(head), vmstat.read_vmstat),
    "mangohud": _by_content("frame log of MangoHud", mangohud.is_mangohud, _frames),
    "gfxinfo": _by_content("dumpsys gfxinfo PACKAGE framestats", android.is_framestats, _app_frames),
    "surfaceflinger": _by_content("dumpsys SurfaceFlinger --latency LAYER", android.is_latency, _layer_frames),
}


def detect_format(data: bytes, name: str) -> str | None:
    """Return the format that the content or the file name shows; None if it is none of KINDS."""
    head = data[:_HEAD_BYTES]
    return next((key for key, kind in KINDS.items() if kind.sniff(head, name)), None)


def read_recording_file(
    data: bytes, name: str, *, as_format: str | None = None, interval_s: float | None = None
) -> Recording:
    """Read one file. Raise BadInput if no format matches, UnreadableOutput if the content violates its format."""
    if as_format is not None:
        if as_format not in KINDS:
            raise UnknownName("format of recordings", as_format, KINDS, hint=f"use one of: {', '.join(KINDS)}")
        return KINDS[as_format].read(data, name, interval_s)
    detected = detect_format(data, name)
    if detected is not None:
        return KINDS[detected].read(data, name, interval_s)
    known = ", ".join(f"{key} ({kind.what})" for key, kind in KINDS.items())
    hint = f"name the format with --format, one of: {known}"
    raise BadInput("unknown format of recordings", file=name, hint=hint)
