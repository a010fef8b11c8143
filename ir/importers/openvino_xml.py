"""The `.xml` of an OpenVINO IR as layers in order, checked. Plain Python; needs defusedxml.

Entities, document type definitions and external references are rejected by the parser; the file's size, the number of
its elements and their depth are limited, so that no file makes more of itself than it is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import XMLParser

from ..errors import ModelError
from ..semantics import DYNAMIC
from .file_limits import FileLimits, read_file

MOST_XML_BYTES = 2**27
MOST_ELEMENTS = 2_000_000
MOST_DEPTH = 64
VERSIONS = ("10", "11")
is_whole_number = re.compile(r"\s*[+-]?[0-9]{1,19}\s*").fullmatch


@dataclass(frozen=True, slots=True)
class Port:
    """An output of a layer: the sizes that it is declared with, and its names."""

    shape: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(slots=True)
class Layer:
    """One layer.

    Attributes:
        id: its number in the file.
        name, type, opset: as the file has them.
        attributes: those of its `data`.
        inputs: the numbers of its input ports.
        sources: the layer that feeds each input port; filled in when the edges are read.
        output: its output; None for a Result.
        output_port: the number of that port.
        result_names: of a Result, the names of the output.
    """

    id: int
    name: str
    type: str
    opset: str
    attributes: Mapping[str, str]
    inputs: tuple[int, ...]
    sources: list[int]
    output: Port | None
    output_port: int | None
    result_names: tuple[str, ...]

    def required(self, name: str) -> str:
        """Return an attribute that must be there; raises ModelError."""
        if name not in self.attributes:
            raise ModelError(f"attribute {name!r} is missing")
        return self.attributes[name]

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute, or a default; raises ModelError."""
        return integer(self.attributes[name], name) if name in self.attributes else default


def integer(text: str | None, what: str) -> int:
    """Return the whole number that a text is; raises ModelError where it is none of 64 bits."""
    number = _whole_number(text)
    if number is None:
        raise ModelError(f"{what} is {text!r}, and must be a whole number")
    return number


@lru_cache(2**18)
def _whole_number(text: str | None) -> int | None:
    """Return the number that a text is, None where it is none; layers and edges have the same numbers."""
    return int(text) if text is not None and is_whole_number(text) else None


def read_layers(path: Path, limits: FileLimits) -> dict[int, Layer]:
    """Return the layers of a model's `.xml` file by their numbers, every one after those that feed it.

    Raises:
        ModelError: it is no XML, has XML that is rejected, is not of version 10 or 11, or its layers and edges make no
            graph.
    """
    root = _parse(path, limits)
    if root.tag != "net":
        raise ModelError(f"{path} is not an OpenVINO IR: its root is {root.tag!r}, not 'net'")
    if root.get("version") not in VERSIONS:
        raise ModelError(f"{path} is an IR of version {root.get('version')}; {' and '.join(VERSIONS)} are supported")
    layers: dict[int, Layer] = {}
    for element in root.findall("./layers/layer"):
        layer = _layer(element)
        if layer.id in layers:
            raise ModelError(f"two layers have the id {layer.id}")
        layers[layer.id] = layer
    _connect(layers, root.findall("./edges/edge"))
    return _ordered(layers)


def _parse(path: Path, limits: FileLimits) -> Element:
    most = FileLimits(min(limits.max_file_bytes, MOST_XML_BYTES), limits.max_tensor_bytes)
    data = read_file(path, most)
    if not data:
        raise ModelError(f"{path} is empty")
    tree, depth, count = TreeBuilder(), 0, 0
    add, close = tree.start, tree.end

    def start(tag: str, attributes: dict[Any, Any]) -> None:
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > MOST_DEPTH or count > MOST_ELEMENTS:
            raise ModelError(f"{path} has elements {depth} deep and {count} in number, which no model has")
        add(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        close(tag)

    parser: Any = XMLParser(target=tree, forbid_dtd=True)
    # Expat calls these two itself: by way of the parser's own handlers, reading takes twice as long.
    parser.parser.ordered_attributes = False
    parser.parser.StartElementHandler, parser.parser.EndElementHandler = start, end
    try:
        parser.feed(data)
        return parser.close()
    except DefusedXmlException as error:
        raise ModelError(f"{path} has XML that is rejected in a model: {type(error).__name__}") from None
    except (ParseError, ValueError, LookupError) as error:
        raise ModelError(f"{path} is not XML, or damaged: {error}") from None


def _layer(element: Element) -> Layer:
    number = integer(element.get("id"), "the id of a layer")
    kind, name = element.get("type") or "", element.get("name") or f"#{number}"
    data = element.find("data")
    what = f"a port of layer {name!r}"
    inputs = tuple([integer(port.get("id"), what) for port in _ports(element, "input")])
    outputs = _ports(element, "output")
    if len(outputs) > 1:
        raise ModelError(f"layer {name!r} ({kind}) has {len(outputs)} outputs; layers of one are supported")
    if len(outputs) != (kind != "Result"):
        raise ModelError(f"layer {name!r} ({kind}) has {len(outputs)} outputs")
    if len(set(inputs)) != len(inputs):
        raise ModelError(f"layer {name!r} ({kind}) has two input ports of one number")
    port = outputs[0] if outputs else None
    return Layer(
        id=number,
        name=name,
        type=kind,
        opset=element.get("version") or "opset1",
        attributes=dict(data.attrib) if data is not None else {},
        inputs=inputs,
        sources=[],
        output=None if port is None else Port(_dims(port, name), _names(port.get("names"))),
        output_port=None if port is None else integer(port.get("id"), what),
        result_names=_names(element.get("output_names")),
    )


def _ports(layer: Element, side: str) -> list[Element]:
    return [port for group in layer.findall(side) for port in group.findall("port")]


def _dims(port: Element, name: str) -> tuple[int, ...]:
    what = f"a dim of layer {name!r}"
    sizes = [integer(dim.text, what) for dim in port.findall("dim")]
    if sizes and min(sizes) < -1:
        raise ModelError(f"layer {name!r} has dims {sizes}; a size is 0 or more, or -1 where it is not known")
    return tuple(DYNAMIC if size == -1 else size for size in sizes)


def _names(text: str | None) -> tuple[str, ...]:
    """Return names that commas separate; a comma in a name has a backslash before it."""
    words = re.split(r"(?<!\\),", text) if text else []
    return tuple(word.replace("\\,", ",") for word in words if word)


def _connect(layers: dict[int, Layer], edges: list[Element]) -> None:
    """Put into every layer what feeds it.

    Raises:
        ModelError: an edge leads from or to nothing, two lead to one port, or a port has none.
    """
    feeds: dict[tuple[int, int], int] = {}
    words = {word: f"{word} of an edge" for word in ("from-layer", "from-port", "to-layer", "to-port")}
    for edge in edges:
        source, source_port, target, target_port = [integer(edge.get(word), what) for word, what in words.items()]
        wrong = ""
        if source not in layers or target not in layers:
            wrong = f" has no layer {target if source in layers else source} to join"
        elif layers[source].output_port != source_port:
            wrong = f": layer {layers[source].name!r} has no output port {source_port}"
        elif target_port not in layers[target].inputs:
            wrong = f": layer {layers[target].name!r} has no input port {target_port}"
        elif (target, target_port) in feeds:
            wrong = ": another edge leads to that port already"
        if wrong:
            raise ModelError(
                f"the edge from layer {source} port {source_port} to layer {target} port {target_port}{wrong}"
            )
        feeds[target, target_port] = source
    for number, layer in layers.items():
        for port in layer.inputs:
            if (number, port) not in feeds:
                raise ModelError(f"layer {layer.name!r} ({layer.type}) has nothing at its input port {port}")
            layer.sources.append(feeds[number, port])


def _ordered(layers: Mapping[int, Layer]) -> dict[int, Layer]:
    """Return the layers, every one after those that feed it, and otherwise in the order of the file.

    Raises:
        ModelError: they feed each other in a cycle.
    """
    done: dict[int, Layer] = {}
    waiting: set[int] = set()
    for first in layers:
        stack = [first]
        while stack:
            number = stack[-1]
            missing = [source for source in layers[number].sources if source not in done]
            if number in done or not missing:
                done.setdefault(number, layers[number])
                waiting.discard(stack.pop())
                continue
            if number in waiting:
                cycle = " and ".join(sorted(repr(layers[entry].name) for entry in waiting)[:4])
                raise ModelError(f"layers feed each other in a cycle: {cycle}")
            waiting.add(number)
            stack += missing
    return done
