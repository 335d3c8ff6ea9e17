"""An address is asked once, in bounded time and size, and no other in its place. Against a server of our own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from workload_helpers import METRICS

from cgplan import InputError
from cgplan.workload.sources.fetch import fetch, is_address
from cgplan.workload.sources.sources import read_sources

asked: list[str] = []


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked.append(self.path)
        if self.path == "/metrics":
            body = (METRICS / "moment-1.txt").read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/metrics")
            self.end_headers()
        elif self.path == "/large":
            self.send_response(200)
            self.end_headers()
            with_bytes = b"x" * 65536
            for _ in range(64):
                self.wfile.write(with_bytes)
        elif self.path == "/slow":
            self.send_response(200)
            self.end_headers()
            stop = threading.Event()
            for _ in range(40):
                self.wfile.write(b"x\n")
                stop.wait(0.02)
        else:
            self.send_error(404)

    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def refused(address: str, **bounds: float) -> InputError:
    with pytest.raises(InputError) as caught:
        fetch(address, **bounds)  # type: ignore[arg-type]
    assert caught.value.code == "CG719"
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize("path", ["", "/", "/metrics"])
def test_the_path_of_metrics_is_the_default(server: str, path: str) -> None:
    assert read_sources([server + path]).parts[0].workload.steps == 62


def test_a_redirect_is_not_followed(server: str) -> None:
    asked.clear()
    assert "redirects to /metrics" in refused(f"{server}/moved").message
    assert asked == ["/moved"]


def test_size_and_time_are_bounded(server: str) -> None:
    assert "larger than 1 MiB" in refused(f"{server}/large", max_bytes=1 << 20).message
    assert "not complete after 0.2 s" in refused(f"{server}/slow", seconds=0.2).message


def test_no_such_page(server: str) -> None:
    assert "it answers 404" in refused(f"{server}/nothing").message


def test_nobody_there() -> None:
    assert "no answer" in refused("http://127.0.0.1:1/metrics", seconds=1).message


@pytest.mark.parametrize(
    "address", ["http://", "http://[::1", "http://host:port/", "http://a b/", "http://host:99999/"]
)
def test_no_address(address: str) -> None:
    assert "no address" in refused(address).message


def test_a_password_is_not_sent_or_shown() -> None:
    error = refused("http://me:secret@127.0.0.1:1/metrics")
    assert "secret" not in str(error.as_dict())


@pytest.mark.parametrize(
    "text", ["metrics.txt", "-", "file:///etc/passwd", "ftp://host/x", "httpx://host", "/http://x"]
)
def test_only_http_is_an_address(text: str) -> None:
    assert not is_address(text)
