import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest

from gathernest.playground.play import server
from gathernest.playground.play.settings import Settings


@pytest.fixture
def served(monkeypatch):
    """Return what the server is asked to serve."""
    calls = []
    pytest.importorskip("marimo", reason="the playground needs marimo: pip install 'gathernest[play]'")
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


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_end_by_a_signal_leaves_no_file_with_the_link(tmp_path, name):
    pytest.importorskip("marimo", reason="the playground needs marimo: pip install 'gathernest[play]'")
    environment = {**os.environ, "BROWSER": "true", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "gathernest", "play"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None and "http://" in process.stdout.readline()
        while not list(tmp_path.glob("gathernest-play-*/open.html")):
            assert process.poll() is None
        process.send_signal(getattr(signal, name))
        assert process.wait(60) == 0
    assert not list(tmp_path.glob("gathernest-play-*"))


def test_without_marimo_the_message_says_what_to_install(gathernest, monkeypatch):
    monkeypatch.setitem(sys.modules, "marimo", None)
    ended = gathernest("play")
    assert ended.status == 1
    assert ended.err == (
        "gathernest: error: the playground is a marimo app, and marimo is not installed; install it: "
        "pip install 'gathernest[play]'\n"
    )


def test_a_port_that_is_taken_is_told_and_the_default_gives_way():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(server.PortError, match=f"port {port} cannot be used .*; give another with --port"):
            server._bound(port)
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", server.PORT)), server._bound(None) as other:
        assert other.getsockname()[0] == "127.0.0.1"
        assert other.getsockname()[1] != server.PORT


@pytest.fixture(scope="module")
def application():
    """The playground for who has the token `right`."""
    pytest.importorskip("marimo", reason="the page needs marimo: pip install 'gathernest[play]'")
    return server.make_application("right", 2718)


def asked(application, *fields, path="/", query=b"", kind="http", method="GET", host=b"127.0.0.1:2718"):
    """Return the status or the code of the first answer, and its header fields."""
    answers = []

    async def receive():
        if kind == "websocket":
            return {"type": "websocket.connect"}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        answers.append(message)

    fields = [(b"host", host), *fields] if host is not None else fields
    scope = {"type": kind, "method": method, "path": path, "query_string": query, "headers": list(fields)}
    scope |= {"http_version": "1.1", "scheme": "http", "root_path": "", "subprotocols": []}
    asyncio.run(application({**scope, "client": ("127.0.0.1", 9), "server": ("127.0.0.1", 2718)}, receive, send))
    return answers[0].get("status") or answers[0].get("code"), dict(answers[0].get("headers", ()))


@pytest.fixture(scope="module")
def cookie(application):
    """The cookie of who opened the link, as a header field."""
    status, fields = asked(application, query=b"access_token=right&data=9x4xf32")
    assert (status, fields[b"refresh"], fields.get(b"location")) == (200, b"0; url=/?data=9x4xf32", None)
    name, value, *attributes = fields[b"set-cookie"].replace(b"; ", b"=", 1).split(b"=", 2)
    assert name == b"session_2718" and b"right" not in fields[b"set-cookie"]
    assert attributes[0].endswith(b"; httponly; samesite=strict")
    return b"cookie", b"%s=%s" % (name, value)


def test_the_page_is_for_who_opened_the_link(application, cookie):
    status, fields = asked(application, cookie)
    assert (status, fields[b"x-frame-options"]) == (200, b"DENY")
    assert asked(application, cookie, host=b"localhost:9000")[0] == 200
    assert asked(application, cookie, (b"origin", b"http://127.0.0.1:2718"))[0] == 200


@pytest.mark.parametrize("query", [b"", b"access_token=", b"access_token=wrong", b"access_token=righ", b"token=right"])
def test_without_the_token_there_is_no_page(application, query):
    status, fields = asked(application, query=query)
    assert (status, fields[b"location"].partition(b"?")[0]) == (303, b"/auth/login")
    assert asked(application, path="/auth/login")[0] == 403


@pytest.mark.parametrize(
    ("fields", "options"),
    [([(b"cookie", b"session_2718=bm9uc2Vuc2U=.x.y")], {}), ([(b"cookie", "session_2718=\u00e9".encode())], {})],
)
def test_a_cookie_that_is_none_of_this_server_opens_nothing(application, fields, options):
    assert asked(application, *fields, **options)[0] == 303


@pytest.mark.parametrize("path", ["/api/kernel/instantiate", "/api/kernel/set_ui_element_value", "/api/kernel/run"])
def test_functions_are_for_who_opened_the_link(application, path):
    assert asked(application, path=path, method="POST")[0] in (401, 403)


@pytest.mark.parametrize(
    "field", [(b"content-length", b"200000000"), (b"content-length", b"9" * 5000), (b"transfer-encoding", b"chunked")]
)
def test_a_body_that_is_too_large_is_rejected_unread(application, cookie, field):
    path = "/api/kernel/set_ui_element_value"
    assert asked(application, cookie, field, path=path, method="POST")[0] == 413
    assert asked(application, field, path=path, method="POST", host=b"evil.example")[0] == 403


def test_the_websocket_is_for_who_opened_the_link(application, cookie):
    assert asked(application, kind="websocket", path="/ws")[0] == 3000  # not authorized
    assert asked(application, cookie, kind="websocket", path="/ws")[0] == 1000  # it names no session
    assert asked(application, kind="websocket", path="/ws", query=b"access_token=right")[0] == 1000


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        *(
            ([], {"host": host})
            for host in (
                *(None, b"", b"elsewhere.example:2718", b"localhost:2718@evil.com", b"localhost@evil.com:2718"),
                *(b"localhost.evil.com", b"localhost:", b"localhost:x", b"localhost:123456", b"localhost:2718\n"),
                *(b"localhost:2718, evil.com", b"127.0.0.1.evil.com:2718", b"127.0.0.10:2718", b"[::1]:2718", b"\xff"),
            )
        ),
        ([(b"host", b"127.0.0.1:2718")], {}),
        ([(b"host", b"evil.com")], {}),
        ([(b"Host", b"evil.com")], {}),
        *(
            ([(b"origin", origin)], {})
            for origin in (
                *(b"", b"null", b"http://elsewhere.example", b"http://localhost:2718", b"https://127.0.0.1:2718"),
                *(b"http://127.0.0.1", b"http://127.0.0.1:2718/", b"http://127.0.0.1:2718@evil.com"),
            )
        ),
        ([(b"origin", b"http://127.0.0.1:2718"), (b"origin", b"http://127.0.0.1:2718")], {}),
        ([(b"origin", b"http://127.0.0.1:2718"), (b"origin", b"http://evil.com")], {}),
        ([], {"query": b"access_token=%C3%A9"}),
        ([], {"query": b"access_token=right&access_token=%FF"}),
        ([(b"authorization", b"Bearer \xe9")], {}),
        ([], {"path": "/auth/login", "method": "POST"}),
    ],
)
def test_other_sites_and_odd_requests_get_no_answer(application, cookie, fields, options):
    assert asked(application, cookie, *fields, **options)[0] == 403
    assert asked(application, cookie, *fields, **options, kind="websocket")[0] == 1008


def test_the_browser_gets_the_link_by_a_file_of_this_user_alone(monkeypatch):
    opened = SimpleQueue()
    monkeypatch.setattr("webbrowser.open", opened.put)
    with server._in_own_folder():
        server._open("http://127.0.0.1:2718/?access_token=a&data=b")
        page = Path(opened.get(timeout=60).removeprefix("file://"))
        assert page.parent.stat().st_mode & 0o077 == 0
        assert 'content="0; url=http://127.0.0.1:2718/?access_token=a&amp;data=b"' in page.read_text()
    assert not page.exists()
