"""An S3 API for tests: moto's server in this process, which keeps objects in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

from kestrel_sql.kafka.broker.broker import HOST, free_port


@dataclass(frozen=True, slots=True)
class S3:
    """A server of S3 at a port; `expired` has the session tokens that it refuses as too old."""

    port: int
    expired: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark that reach it."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "key",
            "spark.hadoop.fs.s3a.secret.key": "secret",
        }

    def token_settings(self, token: str) -> dict[str, str]:
        """The settings of Spark that reach it with credentials for a time."""
        return {**self.settings, "spark.hadoop.fs.s3a.session.token": token}

    def make_bucket(self, name: str) -> None:
        with urlopen(Request(f"{self.url}/{name}", method="PUT"), timeout=30):
            pass

    def ask_for_credentials(self, after: float = 0) -> None:
        """Refuse requests whose credentials no user has, from the request with the number `after` on."""
        body, kind = str(after).encode(), {"Content-Type": "text/plain"}
        with urlopen(Request(f"{self.url}/moto-api/reset-auth", body, kind, method="POST"), timeout=30):
            pass


_Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
_EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"


def _refusing(expired: set[str], app: _Wsgi) -> _Wsgi:
    """Answer requests with an expired token as Amazon does, which moto does not know."""

    def answer(request: dict[str, Any], begin: Callable[..., Any]) -> Iterable[bytes]:
        if request.get("HTTP_X_AMZ_SECURITY_TOKEN") not in expired:
            return app(request, begin)
        request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
        begin("400 Bad Request", [("Content-Type", "application/xml"), ("Content-Length", str(len(_EXPIRED)))])
        return [] if request["REQUEST_METHOD"] == "HEAD" else [_EXPIRED]

    return answer


@contextmanager
def s3_server() -> Iterator[S3]:
    """Run a server until the end of the block. Only nightly tests need its packages."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        def handle_expect_100(self) -> bool:
            """Werkzeug says 100 itself, and Amazon's client takes a second one for the answer."""
            return True

        def log(self, type: str, message: str, *args: Any) -> None:
            """Stay silent."""

    port = free_port()
    s3 = S3(port)
    app = _refusing(s3.expired, DomainDispatcherApplication(create_backend_app))
    server = make_server(HOST, port, app, threaded=True, request_handler=Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield s3
    finally:
        # Moto keeps this for its whole process.
        s3.ask_for_credentials(float("inf"))
        server.shutdown()
        thread.join()
        server.server_close()
