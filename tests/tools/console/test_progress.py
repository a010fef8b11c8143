"""How far a command is, said where there is no terminal for a bar."""

from types import SimpleNamespace

from gathernest.tools.console import terminal


def test_a_line_every_twenty_seconds_says_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=iter(range(0, 99, 15)).__next__))
    with terminal.progress("compiling", 5) as advance:
        for _ in range(3):
            advance(1)
    assert capsys.readouterr().err == "compiling: 2 of 5\n"
