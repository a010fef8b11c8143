"""The page of the Python interface: every public name with its signature and docstring."""

import functools
import inspect
from collections.abc import Iterator

from docstrings import markdown

import gathernest as gn

# By the module or room of a name: the heading that it stands below. Names of other homes stand below "Others".
GROUPS = {
    "kernels.gather": "Gathers",
    "kernels.take": "Gathers",
    "kernels.fill": "Gathers",
    "kernels.ops": "Gathers",
    "kernels.gradient": "Gradients",
    "kernels.kernel": "Kernels",
    "lowering.schedule": "Kernels",
    "kernels.tune": "Kernels",
    "kernels.warm": "Kernels",
    "kernels.runtime.prepare": "Kernels",
    "ir.array_spec": "Kernels",
    "playground": "The playground",
    "interop.models": "Models",
    "kernels.host.knobs": "Settings",
    "ir.errors": "Errors",
}
MORE = {
    "bisect": "playground.md#find-the-wrong-pass",
    "knobs": "knobs.md",
    "load": "models.md",
    "ops": "operators.md",
    "run_stage": "playground.md#run-a-stage",
    "schedule": "schedules.md",
    "step": "playground.md#step-through-one-element",
    "tune": "machine.md#tune-a-gather",
}
# Members of these are Python's own.
FOREIGN = {*dir(functools.partial), *dir(Exception), *dir(tuple), *dir(dict)}


def api_page(note: str) -> str:
    """Return the page: a table of all names, then each below the heading of its group."""
    groups: dict[str, list[str]] = {heading: [] for heading in (*dict.fromkeys(GROUPS.values()), "Others")}
    for name, home in gn._HOMES.items():
        rooms = [room for room in GROUPS if home == room or home.startswith(f"{room}.")]
        groups[GROUPS[rooms[0]] if rooms else "Others"].append(name)
    lines = [
        "# Python interface",
        "",
        note,
        "`import gathernest as gn` has these names. The first call imports what it needs.",
    ]
    lines += ["", "| name | meaning |", "|---|---|"]
    for name in (name for names in groups.values() for name in names):
        anchor = _heading(name).lower().replace(" ", "-").replace(".", "")
        lines.append(f"| [`gn.{name}`](#{anchor}) | {_doc(getattr(gn, name)).splitlines()[0]} |")
    for heading, names in groups.items():
        if names:
            lines += ["", f"## {heading}"]
        for name in names:
            lines += ["", f"### {_heading(name)}", "", *_entry(name)]
    return "\n".join(lines) + "\n"


def _heading(name: str) -> str:
    """Return a heading whose anchor no other has: `gn.schedule` and `gn.Schedule` differ in more than case."""
    return f"class gn.{name}" if inspect.isclass(getattr(gn, name)) else f"gn.{name}"


def _doc(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def _entry(name: str) -> Iterator[str]:
    """Yield the lines of the entry of a public name."""
    thing = getattr(gn, name)
    is_error = inspect.isclass(thing) and issubclass(thing, Exception)
    if inspect.isfunction(thing):
        yield from ["```python", f"gn.{name}{_signature(thing)}", "```", ""]
    elif is_error:
        bases = ", ".join(
            f"`{base.__name__}`" for base in thing.__mro__[1:-1] if base.__name__ not in ("BaseException",)
        )
        yield from [f"An exception; also {bases}.", ""]
    yield from markdown(_doc(thing))
    if name in MORE:
        yield from ["", f"More: [{MORE[name]}]({MORE[name]})."]
    if inspect.isclass(thing) and not is_error:
        yield from _members(thing)


def _members(thing: type) -> Iterator[str]:
    """Yield the public methods and properties of a class."""
    for member in sorted(set(dir(thing)) - FOREIGN):
        value = inspect.getattr_static(thing, member)
        if member.startswith("_") or not _doc(value) or inspect.ismemberdescriptor(value):
            continue
        call = getattr(thing, member)
        shown = f"{member}{_signature(call)}" if callable(call) else member
        yield from ["", f"#### `{shown}`", "", *markdown(_doc(call if callable(call) else value))]


def _signature(function: object) -> str:
    """Return a signature without types: names and defaults."""
    signature = inspect.signature(function)  # type: ignore[arg-type]
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values() if each.name != "self"]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
