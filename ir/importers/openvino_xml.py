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
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import XMLParser

from ..errors import ModelError
from ..semantics import DYNAMIC
from .file_limits import FileLimits, read_file

MOST_XML_BYTES = 2**27
MOST_ELEMENTS = 2_000_000
MOST_DEPTH = 64
VERSIONS = ("10", "11")
Attributes = dict[str, str]
# The numbers of the layer and the port that an edge leads from, and of those that it leads to.
Edge = tuple[int, int, int, int]
is_whole_number = re.compile(r"\s*[+-]?[0-9]{1,19}\s*").fullmatch


@dataclass(frozen=True, slots=True)
class Port:
    """An output of a layer: its number, the sizes that it is declared with, and its names."""

    id: int
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
        sources: the layer that feeds each input port and the place of its output; filled in when the edges are read.
        outputs: its outputs; none of a Result.
        result_names: of a Result, the names of the output.
    """

    id: int
    name: str
    type: str
    opset: str
    attributes: Mapping[str, str]
    inputs: tuple[int, ...]
    sources: list[tuple[int, int]]
    outputs: tuple[Port, ...]
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
    document = _parse(path, limits)
    if document.root != "net":
        raise ModelError(f"{path} is not an OpenVINO IR: its root is {document.root!r}, not 'net'")
    if document.version not in VERSIONS:
        raise ModelError(f"{path} is an IR of version {document.version}; {' and '.join(VERSIONS)} are supported")
    _connect(document.layers, document.edges)
    return _ordered(document.layers)


def _parse(path: Path, limits: FileLimits) -> "_Document":
    most = FileLimits(min(limits.max_file_bytes, MOST_XML_BYTES), limits.max_tensor_bytes)
    data = read_file(path, most)
    if not data:
        raise ModelError(f"{path} is empty")
    document = _Document(path)
    try:
        document.read(data)
    except ModelError:
        raise
    except DefusedXmlException as error:
        raise ModelError(f"{path} has XML that is rejected in a model: {type(error).__name__}") from None
    except (ParseError, ValueError, LookupError) as error:
        raise ModelError(f"{path} is not XML, or damaged: {error}") from None
    return document


class _Document:
    """Makes layers and edges of elements while expat reads them: a tree of all elements takes 350 MB at 10^5 layers.

    They lie at net/layers/layer, with data, input/port and output/port/dim in it, and at net/edges/edge.
    """

    def __init__(self, path: Path):
        self.root, self.version = "", None
        self.layers: dict[int, Layer] = {}
        self.edges: list[Edge] = []
        self._path = path
        self._depth = self._count = 0
        self._section = ""
        self._layer: Attributes | None = None
        self._data: Attributes | None = None
        self._groups: dict[str, list[Attributes]] = {}
        self._ports: list[Attributes] = []
        self._dims: list[list[str]] = []

    def read(self, data: bytes) -> None:
        """Take the bytes of a file; raises ModelError, ParseError, DefusedXmlException and what decoding raises."""
        parser: Any = XMLParser(target=self, forbid_dtd=True)
        # Expat calls this object itself: by way of the parser's own handlers, reading takes twice as long.
        self._expat = parser.parser
        self._expat.ordered_attributes, self._expat.DefaultHandlerExpand = False, None
        self._expat.StartElementHandler, self._expat.EndElementHandler = self._start, self._end
        try:
            parser.feed(data)
            parser.close()
        finally:
            del self._expat  # which refers to this object

    def _start(self, tag: str, attributes: Attributes) -> None:
        self._depth = depth = self._depth + 1
        self._count += 1
        if depth > MOST_DEPTH or self._count > MOST_ELEMENTS:
            raise ModelError(f"{self._path} has elements {depth} deep and {self._count} in number, which no model has")
        if depth == 6:
            if tag == "dim" and self._dims and self._ports is self._groups.get("output"):
                self._dims[-1].append("")
                self._expat.CharacterDataHandler = self._dim
        elif depth == 5:
            if tag == "port":
                self._ports.append(attributes)
                if self._ports is self._groups.get("output"):
                    self._dims.append([])
        elif depth == 4:
            self._ports = self._groups.get(tag, [])
            if tag == "data" and self._data is None:
                self._data = attributes
        elif depth == 3:
            if tag == "edge" and self._section == "edges":
                self.edges.append(_edge(attributes))
            elif tag == "layer" and self._section == "layers":
                self._layer, self._data, self._groups, self._dims = attributes, None, {"input": [], "output": []}, []
        elif depth == 2:
            self._section = tag
        elif depth == 1:
            self.root, self.version = tag, attributes.get("version")

    def _dim(self, text: str) -> None:
        self._dims[-1][-1] += text

    def _end(self, _: str) -> None:
        if self._depth == 6:
            self._expat.CharacterDataHandler = None
        elif self._depth == 3 and self._layer is not None:
            layer = _layer(self._layer, self._data or {}, self._groups["input"], self._groups["output"], self._dims)
            if layer.id in self.layers:
                raise ModelError(f"two layers have the id {layer.id}")
            self.layers[layer.id] = layer
            self._layer, self._groups = None, {}
        self._depth -= 1


def _layer(
    given: Attributes, data: Attributes, inputs: list[Attributes], outputs: list[Attributes], dims: list[list[str]]
) -> Layer:
    """Return a layer, from the attributes of its elements and the texts of its outputs' dims; raises ModelError."""
    number = integer(given.get("id"), "the id of a layer")
    kind, name = given.get("type") or "", given.get("name") or f"#{number}"
    what = f"a port of layer {name!r}"
    ports = tuple([integer(port.get("id"), what) for port in inputs])
    if len(set(ports)) != len(ports):
        raise ModelError(f"layer {name!r} ({kind}) has two input ports of one number")
    return Layer(
        id=number,
        name=name,
        type=kind,
        opset=given.get("version") or "opset1",
        attributes=data,
        inputs=ports,
        sources=[],
        outputs=tuple(
            [
                Port(integer(port.get("id"), what), _sizes(sizes, name), _names(port.get("names")))
                for port, sizes in zip(outputs, dims, strict=True)
            ]
        ),
        result_names=_names(given.get("output_names")),
    )


def _sizes(dims: list[str], name: str) -> tuple[int, ...]:
    what = f"a dim of layer {name!r}"
    sizes = [integer(dim, what) for dim in dims]
    if sizes and min(sizes) < -1:
        raise ModelError(f"layer {name!r} has dims {sizes}; a size is 0 or more, or -1 where it is not known")
    return tuple([DYNAMIC if size == -1 else size for size in sizes])


def _names(text: str | None) -> tuple[str, ...]:
    """Return names that commas separate; a comma in a name has a backslash before it."""
    words = re.split(r"(?<!\\),", text) if text else []
    return tuple(word.replace("\\,", ",") for word in words if word)


def _edge(given: Attributes) -> Edge:
    return (
        integer(given.get("from-layer"), "from-layer of an edge"),
        integer(given.get("from-port"), "from-port of an edge"),
        integer(given.get("to-layer"), "to-layer of an edge"),
        integer(given.get("to-port"), "to-port of an edge"),
    )


def _connect(layers: Mapping[int, Layer], edges: list[Edge]) -> None:
    """Put into every layer what feeds it.

    Raises:
        ModelError: an edge leads from or to nothing, two lead to one port, or a port has none.
    """
    feeds: dict[tuple[int, int], tuple[int, int]] = {}
    for source, source_port, target, target_port in edges:
        wrong, place = "", -1
        if source in layers:
            place = next((place for place, port in enumerate(layers[source].outputs) if port.id == source_port), -1)
        if source not in layers or target not in layers:
            wrong = f" has no layer {target if source in layers else source} to join"
        elif place < 0:
            wrong = f": layer {layers[source].name!r} has no output port {source_port}"
        elif target_port not in layers[target].inputs:
            wrong = f": layer {layers[target].name!r} has no input port {target_port}"
        elif (target, target_port) in feeds:
            wrong = ": another edge leads to that port already"
        if wrong:
            raise ModelError(
                f"the edge from layer {source} port {source_port} to layer {target} port {target_port}{wrong}"
            )
        feeds[target, target_port] = source, place
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
            missing = [source for source, _ in layers[number].sources if source not in done]
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
