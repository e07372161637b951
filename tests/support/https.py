# SPDX-License-Identifier: Apache-2.0
"""A real https server on 127.0.0.1, with a self-signed certificate that is trusted through SSL_CERT_FILE."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Handler(BaseHTTPRequestHandler):
    """Answers with the content that `files` has for a path; other paths are not found."""

    files: Mapping[str, bytes] = {}

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Send the content of the requested path."""
        content = self.files.get(self.path.removeprefix("/"))
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def make_certificate(folder: Path) -> Path:
    """Return a self-signed certificate for 127.0.0.1, with its key."""
    path = folder / "both.pem"
    made = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {path} -out {path}.crt"
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2")
    subprocess.run([*made.split(), *names], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


@contextmanager
def served(certificate: Path, handler: type[Handler]) -> Iterator[str]:
    """Yield the address of a server whose certificate is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listening = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    serving = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", f"{certificate}.crt")
        patch.setenv("no_proxy", "*")
        yield f"https://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    serving.join()
    listening.server_close()
