"""The server of the playground: marimo's app in this process, on this machine's own address only."""

import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ...ir.errors import DependencyError, GathernestError
from .worker import WORKER

HOST, PORT = "127.0.0.1", 2718
NAMES = (HOST, "localhost")
APP = Path(__file__).with_name("app.py")


class OwnPageOnly:
    """An application that answers the page of this server alone, and no page of another site that the browser shows.

    A request must name this machine, and come from a page of the same address where the browser says from which.
    """

    def __init__(self, application: Any):
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or reject it."""
        headers = {name: value.decode("latin-1") for name, value in scope.get("headers", ())}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        is_own = host.partition(":")[0] in NAMES and origin in (None, f"http://{host}")
        if is_own or scope["type"] == "lifespan":
            await self.application(scope, receive, _unframed(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"This playground answers its own page only.\n"})


def _unframed(send: Any) -> Any:
    """Return what sends answers with a header that keeps pages of other sites from showing this one in a frame."""

    async def sends(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (b"x-frame-options", b"DENY")]}
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


def serve(port: int | None, query: Mapping[str, str], *, opens_browser: bool, say: Callable[[str], Any]) -> None:
    """Serve the playground until Ctrl-C.

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
    import marimo  # pyright: ignore[reportMissingImports]
    import uvicorn  # pyright: ignore[reportMissingImports]

    listening = _bound(port)
    address = f"http://{HOST}:{listening.getsockname()[1]}/{f'?{urlencode(query)}' if query else ''}"
    application = marimo.create_asgi_app(quiet=True).with_app(path="", root=str(APP)).build()
    WORKER.start()
    say(address)
    if opens_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    try:
        uvicorn.Server(
            uvicorn.Config(OwnPageOnly(application), log_level="error", access_log=False, timeout_graceful_shutdown=1)
        ).run([listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
        WORKER.stop()
        _close_pages(application)


def _close_pages(application: Any) -> None:
    """End the kernels of the pages that are open: this process waits for their threads."""
    for route in application.routes:
        state = getattr(getattr(route, "app", None), "state", None)
        if (sessions := getattr(state, "session_manager", None)) is not None:
            sessions.close_all_sessions()


def _bound(port: int | None) -> socket.socket:
    """Return a socket at a port of this machine alone."""
    reason = ""
    for wanted in (PORT, 0) if port is None else (port,):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, wanted))
            return listening
        except OSError as error:
            listening.close()
            reason = error.strerror or str(error)
    raise PortError(f"port {port} cannot be used ({reason}); give another with --port, or leave it out")
