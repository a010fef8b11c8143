import asyncio
import socket

import pytest

from gathernest.tools.play import server
from gathernest.tools.play.settings import Settings

FRAMES = (b"x-frame-options", b"DENY")


@pytest.fixture
def served(monkeypatch):
    """Return what the server is asked to serve."""
    calls = []
    monkeypatch.setattr(server, "require_marimo", lambda: None)
    monkeypatch.setattr(server, "serve", lambda *words, **named: calls.append((*words, named["opens_browser"])))
    return calls


def test_the_first_gather_is_served_and_a_browser_opened(gathernest, served):
    assert gathernest("play").status == 0
    assert served == [(None, {}, True)]


def test_a_gather_of_the_command_line_is_in_the_link(gathernest, served):
    ended = gathernest(
        "play", "--data", "9x4xf32", "--indices", "3xi64", "--bounds", "clip", "--port", "8000", "--no-browser"
    )
    assert ended.status == 0
    ((port, query, opens),) = served
    assert (port, opens) == (8000, False)
    assert Settings.from_query(query) == Settings(data="9x4xf32", indices="3xi64", bounds="clip")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port", "0"), "--port: expected a whole number from 1 to 65535, got 0"),
        (("--data", "9x4xf32"), "--indices is missing; name the gather with --data and --indices"),
        (("--operator", "gather_reduce"), "--data is missing; name the gather with --data and --indices"),
        (("--axis", "5", "--bounds", "zzz"), "--data is missing; name the gather with --data and --indices"),
        (("--prot", "1"), "there is no option --prot; did you mean '--port'?"),
    ],
)
def test_a_wrong_option_is_a_usage_error(gathernest, served, words, message):
    ended = gathernest("play", *words)
    assert ended.status == 2
    assert message in ended.err
    assert not served


def test_without_marimo_the_message_says_what_to_install(gathernest, monkeypatch):
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    ended = gathernest("play")
    assert ended.status == 1
    assert ended.err == (
        "gathernest: error: the playground is a marimo app, and marimo is not installed; install it: "
        "pip install 'gathernest[play]'\n"
    )


def test_a_port_that_is_taken_is_told_and_the_default_gives_way(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(server.PortError, match=f"port {port} cannot be used .*; give another with --port"):
            server._bound(port)
        monkeypatch.setattr(server, "PORT", port)
        with server._bound(None) as other:
            assert other.getsockname()[0] == "127.0.0.1"
            assert other.getsockname()[1] != port


@pytest.mark.parametrize(
    ("host", "origin", "kind", "answer"),
    [
        ("127.0.0.1:2718", None, "http", None),
        ("127.0.0.1:2718", "http://127.0.0.1:2718", "websocket", None),
        ("localhost:9000", "http://localhost:9000", "http", None),
        ("127.0.0.1:2718", "http://elsewhere.example", "http", 403),
        ("127.0.0.1:2718", "http://localhost:2718", "websocket", 1008),
        ("127.0.0.1:2718", "null", "websocket", 1008),
        ("elsewhere.example:2718", None, "http", 403),
        ("", None, "http", 403),
    ],
)
def test_pages_of_other_sites_get_no_answer(host, origin, kind, answer):
    reached, sent = [], []

    async def application(scope, receive, answers):
        reached.append(scope)
        await answers({"type": "http.response.start", "headers": [(b"a", b"b")]})

    async def send(message):
        sent.append(message.get("status") or message.get("code") or message.get("headers"))

    headers = [(b"host", host.encode())] + ([] if origin is None else [(b"origin", origin.encode())])
    asyncio.run(server.OwnPageOnly(application)({"type": kind, "headers": headers}, None, send))
    assert (len(reached), sent[:1]) == ((1, [[(b"a", b"b"), FRAMES]]) if answer is None else (0, [answer]))
