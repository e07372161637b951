# SPDX-License-Identifier: Apache-2.0
"""Fetches a small document over http or https."""

from __future__ import annotations

import email.utils
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import IO, NamedTuple

from ktrial import __version__
from ktrial.kit.errors import BadInput, KtrialError, in_lower_case

MOST_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 16
#: Bytes to read of an error document, which contains the reason.
_REASON_BYTES = 1 << 16


class NotRead(KtrialError):
    """A source gives no value at the moment; the message contains the reason."""


class IdleSource(NotRead):
    """A source can be read but has counted nothing."""


class WebAnswer(NamedTuple):
    """A document. `date_ms` is when the server sent it, by the server's clock; None if the server does not say."""

    status: int
    data: bytes
    content_type: str
    date_ms: int | None


Fetch = Callable[[str, float, str], WebAnswer]


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Follows redirections with the same scheme, or from http to https."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not newurl.startswith(("https:", f"{req.type}:")):
            raise NotRead(
                f"{req.full_url} redirects to {newurl[:200]}, which has another scheme",
                hint="give the address to which the server redirects",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def check_address(address: str, option: str) -> None:
    """Raise BadInput unless the address is a plain http or https address without a user name or a password."""
    try:
        parts = urllib.parse.urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise BadInput(
            f"{option}: cannot read the address {address!r} ({in_lower_case(str(error))})", hint=_EXAMPLE
        ) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadInput(f"{option}: {address!r} is not an http or https address", hint=_EXAMPLE)
    if port == 0:
        raise BadInput(f"{option}: {address!r} has port 0", hint="use a port from 1 to 65535")
    if parts.username is not None or parts.password is not None:
        raise BadInput(
            f"{option}: an address must not contain a user name or a password, because trials are stored and shared",
            hint="give the address of a proxy on this machine that adds the password",
        )
    if any(ord(letter) <= ord(" ") or ord(letter) > ord("~") for letter in address):
        raise BadInput(
            f"{option}: the address {address!r} contains a blank, a control or a non-ASCII character", hint=_EXAMPLE
        )


_EXAMPLE = "write the address as in prometheus:http://localhost:9090 or openmetrics:http://localhost:9100/metrics"


def fetch(address: str, limit_s: float, accept: str) -> WebAnswer:
    """Fetch a document of at most MOST_BYTES, with the proxies of the environment. Raise NotRead if that fails."""
    request = urllib.request.Request(address, headers={"User-Agent": f"ktrial/{__version__}", "Accept": accept})
    deadline = time.monotonic() + limit_s
    try:
        with _opener().open(request, timeout=limit_s) as answer:
            return _whole(answer, answer.status, MOST_BYTES, deadline)
    except urllib.error.HTTPError as error:
        with error:
            return _whole(error, error.code, _REASON_BYTES, deadline, cut=True)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise NotRead(
            f"cannot fetch {_host(address)} ({why})",
            hint="check the address, the server and the network",
        ) from None


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener without handlers for files and ftp."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        _SameScheme(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _whole(answer: IO[bytes], status: int, most: int, deadline: float, *, cut: bool = False) -> WebAnswer:
    headers: http.client.HTTPMessage = answer.headers  # type: ignore[attr-defined]
    address: str = answer.url  # type: ignore[attr-defined]
    found = bytearray()
    while chunk := answer.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]
        found += chunk
        if len(found) > most:
            if cut:
                break
            raise NotRead(
                f"the answer of {_host(address)} is larger than {most >> 20} MiB",
                hint="use prometheus:…?query=QUERY with a query that returns one series",
            )
        if time.monotonic() > deadline:
            raise NotRead(f"the answer of {_host(address)} took too long", hint="check the server and the network")
    length = getattr(answer, "length", None)
    if length and not cut:
        raise NotRead(
            f"the answer of {_host(address)} ended {length} bytes early", hint="check the server and the network"
        )
    return WebAnswer(status, bytes(found), headers.get("Content-Type", ""), _date_ms(headers.get("Date")))


def _date_ms(text: str | None) -> int | None:
    try:
        return None if text is None else round(email.utils.parsedate_to_datetime(text).timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        return None


def _host(address: str) -> str:
    return urllib.parse.urlsplit(address).netloc
