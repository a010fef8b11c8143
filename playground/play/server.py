"""The server of the playground: marimo's app in this process, on this machine's own address, for who has its token.

marimo compares the token of the link, and remembers in a cookie that it was right. The rest is rejected before it.
"""

import contextlib
import html
import re
import secrets
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from ...ir.errors import DependencyError, GathernestError
from .work import WORKER

HOST, PORT = "127.0.0.1", 2718
# Ports differ where another machine reaches this one through a tunnel.
HOST_FIELD = re.compile(rb"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")
TOKEN = "access_token"
# The largest body of a request that is read, in bytes: many times the page's largest.
MAX_BODY_BYTES = 1 << 24
APP = Path(__file__).with_name("app.py")


class OwnPageOnly:
    """An application that answers the page of this server alone, and no page of another site that the browser shows.

    A request must name this machine, and come from a page of the same address where the browser says from which. It
    has its token in the link or in the cookie; marimo's form and its header for tokens are left out.
    """

    def __init__(self, application: Any):
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or reject it."""
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
        elif _is_own(scope) and not _is_large(scope):
            await self.application(scope, receive, _guarded(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            status, body = 403, "This playground answers its own page only: open the link that gathernest play printed."
            if _is_own(scope):
                status, body = 413, f"A request must say its size in bytes, {MAX_BODY_BYTES} at most; send less."
            headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": f"{body}\n".encode()})


def _is_own(scope: Any) -> bool:
    """Return whether a request names this machine, comes from the page of it, and has a token that marimo can read."""
    fields: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        fields.setdefault(name.lower(), []).append(value)
    hosts, origins = fields.get(b"host", []), fields.get(b"origin", [])
    if len(hosts) != 1 or HOST_FIELD.fullmatch(hosts[0]) is None or origins not in ([], [b"http://" + hosts[0]]):
        return False
    tokens = parse_qs(scope["query_string"].decode("latin-1")).get(TOKEN, [])
    return all(map(str.isascii, tokens)) and b"authorization" not in fields and not scope["path"].startswith("/auth/")


def _is_large(scope: Any) -> bool:
    """Return whether a request has a body that is too large, or does not say how large it is."""
    fields = dict(scope["headers"])
    length = fields.get(b"content-length", b"0")
    return b"transfer-encoding" in fields or not length.isdigit() or len(length) > 9 or int(length) > MAX_BODY_BYTES


def _guarded(send: Any) -> Any:
    """Return a function that sends answers safely: other sites cannot show this page in a frame or use its cookie.

    A browser keeps such a cookie from a request that another page, or a file, was redirected to. So the redirect behind
    a right token becomes a page of this site, which goes on itself.
    """

    async def sends(message: Any) -> None:
        if message["type"] == "http.response.start":
            fields = dict(message.get("headers", ()))
            fields[b"x-frame-options"] = b"DENY"
            if b"set-cookie" in fields:
                fields[b"set-cookie"] = fields[b"set-cookie"].replace(b"samesite=lax", b"samesite=strict")
                if (target := fields.pop(b"location", None)) is not None:
                    fields |= {b"refresh": b"0; url=" + target, b"content-type": b"text/html"}
                    message = {**message, "status": 200}
            message = {**message, "headers": list(fields.items())}
        await send(message)

    return sends


class PortError(GathernestError, OSError):
    """The port cannot be used."""


def require_marimo() -> None:
    """Check that marimo is installed; raises DependencyError."""
    if find_spec("marimo") is None or find_spec("uvicorn") is None:
        raise DependencyError(
            "the playground is a marimo app, and marimo is not installed; install it: pip install 'gathernest[play]'"
        )


@contextlib.contextmanager
def _in_own_folder() -> Iterator[None]:
    """Have temporary files in a folder that goes with the server, whose pages may end before they remove theirs."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="gathernest-play-", ignore_cleanup_errors=True) as tempfile.tempdir:
        try:
            yield
        finally:
            tempfile.tempdir = before


@_in_own_folder()
def serve(port: int | None, query: Mapping[str, str], *, opens_browser: bool, say: Callable[[str], Any]) -> None:
    """Serve the playground until Ctrl-C, or until a signal or a closed terminal ends it.

    Args:
        port: of this machine; PORT when None, or any free one where that is taken.
        query: the parameters of the page that is opened.
        opens_browser: whether to open it.
        say: is called with the address of the page when it can be opened.

    Raises:
        DependencyError: marimo is not installed.
        PortError: the port that was asked for is taken, or not allowed.
    """
    require_marimo()
    import uvicorn  # pyright: ignore[reportMissingImports]

    listening, token = _bound(port), secrets.token_urlsafe(24)
    number = listening.getsockname()[1]
    address = f"http://{HOST}:{number}/?{urlencode({TOKEN: token, **query})}"
    application = make_application(token, number)
    WORKER.start()
    for ending in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # a closed terminal; Windows has none
        if signal.getsignal(ending) is signal.SIG_DFL:
            signal.signal(ending, lambda *_: signal.raise_signal(signal.SIGINT))
    say(address)
    try:
        if opens_browser:
            _open(address)
        # The page shows its own errors; a damaged request must not print a traceback on the terminal.
        uvicorn.Server(
            uvicorn.Config(application, log_level="critical", access_log=False, timeout_graceful_shutdown=1)
        ).run([listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
        WORKER.stop()
        for state in _states(application.application):  # this process waits for the threads of the pages
            state.session_manager.close_all_sessions()


def make_application(token: str, port: int) -> OwnPageOnly:
    """Return the playground as an ASGI application for who has the token; its cookie is named by the port."""
    import marimo  # pyright: ignore[reportMissingImports]

    application = marimo.create_asgi_app(quiet=True, token=token).with_app(path="", root=str(APP)).build()
    for state in _states(application):
        state.port = port
    return OwnPageOnly(application)


def _states(application: Any) -> list[Any]:
    """Return the states of the apps of marimo in an application."""
    states = (getattr(getattr(route, "app", None), "state", None) for route in application.routes)
    return [state for state in states if hasattr(state, "session_manager")]


def _open(address: str) -> None:
    """Open an address in the browser, by a file that only this user reads: all users see the words of a command."""
    page = Path(tempfile.gettempdir(), "open.html")
    page.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">', encoding="utf-8")
    threading.Thread(target=webbrowser.open, args=[page.as_uri()], daemon=True).start()


def _bound(port: int | None) -> socket.socket:
    """Return a socket at a port of this machine alone."""
    reason = ""
    for wanted in (PORT, 0) if port is None else (port,):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, wanted))
            listening.listen()  # requests wait until the server runs
            return listening
        except OSError as error:
            listening.close()
            reason = error.strerror or str(error)
    raise PortError(f"port {port} cannot be used ({reason}); give another with --port, or leave it out")
