"""The page in headless Chromium: what typing changes, what is underlined, what a link restores, and its end."""

import re
import signal
import subprocess
import sys
from queue import SimpleQueue

import pytest

from gathernest.playground.play import server as play_server

from ..report.browser import browser

pytestmark = pytest.mark.thorough

pytest.importorskip("marimo", reason="the page needs marimo: pip install 'gathernest[play]'")

EDITOR = "[...document.querySelectorAll('marimo-code-editor')].map((e) => e.shadowRoot.querySelector('.cm-content'))[0]"
END, SHIFT, LONGEST_MS = 35, 8, 60_000


@pytest.fixture(scope="module")
def server():
    """Return the address of a playground and its process."""
    command = [sys.executable, "-m", "gathernest", "play", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield re.search(r"http://\S+", process.stdout.readline())[0], process
        process.kill()


@pytest.fixture(scope="module")
def tab(tmp_path_factory, program):
    with browser(program("chromium"), tmp_path_factory.mktemp("profile")) as found:
        found.call("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
        yield found


def wait(tab, condition):
    """Wait until a condition holds on the page."""
    assert tab.evaluate(
        f"""new Promise((done) => {{
          const timer = setInterval(() => {{ if ({condition}) {{ clearInterval(timer); done(true); }} }}, 20);
          setTimeout(() => {{ clearInterval(timer); done(false); }}, {LONGEST_MS});
        }})"""
    ), f"{condition}\n{tab.evaluate('document.body.innerText')}"


def shown(cell):
    return f"(document.querySelector('[data-cell-name={cell}]')?.innerText ?? '')"


def write_line(tab, number, text):
    """Put a text in the place of a line of the steps, as a person does: click, select, type."""
    x, y = tab.evaluate(
        f"(() => {{ const b = {EDITOR}.querySelectorAll('.cm-line')[{number}].getBoundingClientRect();"
        "return [b.left + 20, (b.top + b.bottom) / 2]; })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    for key, code, modifiers in (("Home", END + 1, 0), ("End", END, SHIFT)):
        for kind in ("keyDown", "keyUp"):
            fields = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
            tab.call("Input.dispatchKeyEvent", type=kind, **fields)
    tab.call("Input.insertText", text=text)


FIELD = "document.querySelector('marimo-text').shadowRoot.querySelector('input')"


def test_typed_text_is_never_replaced_by_an_older_one(server, tab):
    address = server[0]
    tab.call("Page.navigate", url="about:blank")
    tab.call("Page.navigate", url=address)
    # From the link to the page; a pending `wait` would end with the page that it is asked on.
    places = (tab.evaluate("location.href") for _ in range(20_000))
    assert any(place.startswith(address.partition("?")[0]) and "token" not in place for place in places)
    wait(tab, f"{shown('nest')}.includes('step 64') && {EDITOR}?.querySelector('.cm-line')")
    wait(tab, f"{shown('stage_list')}.includes('operator')")
    for number, between_ms in enumerate([0, 30, 60, 120]):
        words, data = f"# keys {between_ms} ms apart stay", f"16x300{number}x32xf32"
        write_line(tab, 4, "")
        type_keys(tab, words, between_ms)
        pause(tab, 500)
        assert tab.evaluate(f"{EDITOR}.querySelectorAll('.cm-line')[4].innerText") == words
        tab.evaluate(f"{FIELD}.focus(), {FIELD}.select()")
        type_keys(tab, data, between_ms)
        pause(tab, 500)
        assert tab.evaluate(f"{FIELD}.value") == data


def type_keys(tab, text, between_ms):
    for letter in text:
        tab.call("Input.insertText", text=letter)
        pause(tab, between_ms)


def pause(tab, ms):
    tab.evaluate(f"new Promise((done) => setTimeout(done, {ms}))")


def test_the_page_follows_what_is_typed_and_a_link_restores_it(server, tab, monkeypatch):
    address, process = server
    opened = SimpleQueue()
    monkeypatch.setattr("webbrowser.open", opened.put)
    with play_server._in_own_folder():
        play_server._open(address)
        tab.call("Page.navigate", url=opened.get(timeout=60))
        # From the file by the link to the page; a pending `wait` would end with the page that it is asked on.
        places = (tab.evaluate("location.href") for _ in range(20_000))
        assert address.partition("?")[0] in places
    wait(tab, f"{shown('nest')}.includes('step 64') && {EDITOR}?.querySelector('.cm-line')")
    write_line(tab, 0, 'tile("indices", 48)')
    wait(tab, f"{shown('nest')}.includes('step 48')")
    wait(tab, f"{shown('bytes_check')}.includes('The bytes are right') && {shown('bytes_check')}.includes('by 51xi64')")
    wait(tab, f"{shown('machine')}.includes('µs a call') && {shown('machine')}.includes('inner: ')")
    write_line(tab, 4, 'parallel("outer")')
    wait(tab, "document.querySelector('.play.bad u')?.innerText === 'for outer(o) in 0..n_outer:'")
    kept = "(document.querySelector('.kept')?.innerText ?? '')"
    assert tab.evaluate(f"{kept}.includes('step 48') && {kept}.includes('µs a call')")
    link = tab.evaluate("location.href")
    tab.call("Page.navigate", url="about:blank")
    tab.call("Page.navigate", url=link)
    wait(tab, "document.querySelector('.play.bad u')?.innerText === 'for outer(o) in 0..n_outer:'")
    wait(tab, f"{EDITOR}?.innerText.startsWith('tile(\"indices\", 48)')")
    requested = {request["request"]["url"].split("/")[2] for request in tab.reported("Network.requestWillBeSent")}
    assert requested - {""} == {address.split("/")[2]}
    assert not tab.reported("Runtime.exceptionThrown")
    process.send_signal(signal.SIGINT)
    assert process.wait(LONGEST_MS / 1000) == 0
