# SPDX-License-Identifier: Apache-2.0
"""Downloads over real https, from a server of the test's own that a certificate of the test's own vouches for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.bench.tools.download import download
from ktrial.kit.errors import BadInput, KtrialError
from tests.support.https import Handler, make_certificate, served

CONTENT = bytes(range(256)) * 1000


class _Handler(Handler):
    def answer(self) -> None:
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


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("https"))


@pytest.fixture
def server(certificate: Path) -> Iterator[str]:
    with served(certificate, _Handler) as address:
        yield address


@pytest.mark.parametrize("place", ["archive", "to-https"])
def test_a_file_comes_whole(server: str, tmp_path: Path, place: str) -> None:
    download(f"{server}/{place}", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "place, message",
    [
        ("to-http", "redirects to http://"),
        ("to-file", "file://.* not allowed"),
        ("nothing", "404|Not Found"),
        ("short", "bytes early|IncompleteRead"),
    ],
)
def test_what_is_not_followed_or_not_whole(server: str, tmp_path: Path, place: str, message: str) -> None:
    with pytest.raises(KtrialError, match=message):
        download(f"{server}/{place}", tmp_path / "a")


def test_a_file_that_is_too_large_is_left(server: str, tmp_path: Path) -> None:
    with pytest.raises(KtrialError, match="larger than 1000 B"):
        download(f"{server}/archive", tmp_path / "a", most_bytes=1000)
    assert (tmp_path / "a").stat().st_size <= 1000


def test_nobody_vouches_for_the_server(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
    with pytest.raises(KtrialError, match=r"(?i)certificate"):
        download(f"{server}/archive", tmp_path / "a")


@pytest.mark.parametrize("address", ["http://example.org/a.tar.gz", "file:///etc/passwd", "ftp://example.org/a"])
def test_only_https(address: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not an https address"):
        download(address, tmp_path / "a")
    assert not (tmp_path / "a").exists()
