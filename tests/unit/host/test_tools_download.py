# SPDX-License-Identifier: Apache-2.0
"""Downloads over real https, from a server of the test's own that a certificate of the test's own vouches for."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ktrial.domain.errors import BadInput, KtrialError
from ktrial.host.tools_download import download

CONTENT = bytes(range(256)) * 1000


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        place = self.path.removeprefix("/")
        if place in {"to-http", "to-file", "to-https"}:
            there = {"to-http": "http://127.0.0.1:1/x", "to-file": "file:///etc/passwd", "to-https": "/archive"}[place]
            self.send_response(302)
            self.send_header("Location", there)
            self.end_headers()
            return
        self.send_response(200 if place in {"archive", "short"} else 404)
        self.send_header("Content-Length", str(len(CONTENT) + (place == "short")))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    path = tmp_path_factory.mktemp("https") / "both.pem"
    made = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {path} -out {path}.crt"
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2")
    subprocess.run(
        [*made.split(), *names],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


@pytest.fixture
def server(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an https server whose certificate is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listening = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    serving = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    monkeypatch.setenv("no_proxy", "*")
    yield f"https://127.0.0.1:{listening.server_port}"
    listening.shutdown()
    serving.join()
    listening.server_close()


@pytest.mark.parametrize("place", ["archive", "to-https"])
def test_a_file_comes_whole(server: str, tmp_path: Path, place: str) -> None:
    download(f"{server}/{place}", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "place, message",
    [
        ("to-http", "leads to http://"),
        ("to-file", "file://.* not allowed"),
        ("nothing", "404|Not Found"),
        ("short", "too early|IncompleteRead"),
    ],
)
def test_what_is_not_followed_or_not_whole(server: str, tmp_path: Path, place: str, message: str) -> None:
    with pytest.raises(KtrialError, match=message):
        download(f"{server}/{place}", tmp_path / "a")


def test_a_file_that_is_too_large_is_left(server: str, tmp_path: Path) -> None:
    with pytest.raises(KtrialError, match="larger than 1000 bytes"):
        download(f"{server}/archive", tmp_path / "a", most_bytes=1000)
    assert (tmp_path / "a").stat().st_size <= 1000


def test_nobody_vouches_for_the_server(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    with pytest.raises(KtrialError, match=r"(?i)certificate"):
        download(f"{server}/archive", tmp_path / "a")


@pytest.mark.parametrize("address", ["http://example.org/a.tar.gz", "file:///etc/passwd", "ftp://example.org/a"])
def test_only_https(address: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no https address"):
        download(address, tmp_path / "a")
    assert not (tmp_path / "a").exists()
