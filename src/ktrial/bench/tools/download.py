# SPDX-License-Identifier: Apache-2.0
"""Download one file over https, with limits on size and time."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

from ktrial import __version__
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.units import show_bytes

ARCHIVE_BYTES = 128 << 20
#: Seconds for the whole download, and for each wait on the network.
LIMIT_S = 600.0
_WAIT_S = 30.0
_CHUNK_BYTES = 1 << 16


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirections to https addresses only."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not newurl.startswith("https://"):
            raise KtrialError(
                f"{req.full_url} redirects to {newurl}, which is not https",
                hint="give the path of a file that you downloaded yourself",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(address: str, into: Path, *, most_bytes: int = ARCHIVE_BYTES) -> None:
    """Download an https address to a new file, with the proxies and SSL_CERT_FILE of the environment."""
    if not address.startswith("https://"):
        raise BadInput(
            f"{address} is not an https address", hint="give the path of a file that you downloaded yourself"
        )
    opener = urllib.request.build_opener(_HttpsOnly)
    request = urllib.request.Request(address, headers={"User-Agent": f"ktrial/{__version__}"})
    deadline = time.monotonic() + LIMIT_S
    try:
        with opener.open(request, timeout=_WAIT_S) as answer, into.open("xb") as file:
            left = most_bytes
            while chunk := answer.read(_CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise KtrialError(
                        f"cannot download {address}: it is larger than {show_bytes(most_bytes)}",
                        hint="check the address",
                    )
                if time.monotonic() > deadline:
                    raise KtrialError(
                        f"cannot download {address}: it took longer than {LIMIT_S / 60:g} min",
                        hint="give the path of a file that you downloaded yourself",
                    )
                file.write(chunk)
            if answer.length:
                raise KtrialError(
                    f"cannot download {address}: the transfer ended {answer.length} bytes early", hint="try again"
                )
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # the error holds the connection
        raise KtrialError(
            f"cannot download {address}: {reason}", hint="give the path of a file that you downloaded yourself"
        ) from None
