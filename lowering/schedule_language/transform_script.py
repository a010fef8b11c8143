"""Steps as a script of MLIR's `transform` dialect: one `apply_registered_pass` a step, in one named sequence.

Upstream's `mlir-opt` parses and prints such scripts. Only gathernest has the passes that they name.
"""

import json
from collections.abc import Iterable
from typing import Any

from xdsl.context import Context
from xdsl.dialects import transform
from xdsl.dialects.builtin import ArrayAttr, Builtin, FloatAttr, IntegerAttr, StringAttr, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.arg_spec import ArgSpec

from ...ir.errors import ScheduleError, show
from ...ir.modules.read_module import InputError, read_module
from ..schedule.steps import Step

ENTRY = "__transform_main"
MARK = "transform.with_named_sequence"
APPLY = "transform.apply_registered_pass"
HANDLE = "!transform.any_op"


def transform_script(steps: Iterable[Step]) -> str:
    """Return the script that applies steps one after the other."""
    applied, nest = list[str](), "%nest"
    for number, step in enumerate(steps):
        options = ", ".join(f"{_key(name)} = {_text(value)}" for name, value in step.given.items())
        given = f" with options = {{{options}}}" if options else ""
        applied.append(f'    %{number} = {APPLY} "{step.name}"{given} to {nest} : ({HANDLE}) -> {HANDLE}')
        nest = f"%{number}"
    first = f"builtin.module attributes {{{MARK}}} {{\n  transform.named_sequence @{ENTRY}(%nest: {HANDLE}) {{"
    return "\n".join([first, *applied, "    transform.yield", "  }", "}"]) + "\n"


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _text(value: Any) -> str:
    """Return the text of an attribute; a script may have a list of one value in the place of the value."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value} : {'i64' if isinstance(value, int) else 'f64'}"
    return json.dumps(str(value) if isinstance(value, str) else value)


def read_transform_script(text: str) -> list[ArgSpec]:
    """Return the passes with their options that a script applies, in order; in custom or generic syntax.

    Raises:
        ScheduleError: the text does not parse, or it does something else than apply passes one after the other.
    """
    if not isinstance(text, str):
        raise ScheduleError(f"a transform script is text, got {show(text)}")
    context = Context()
    for dialect in (Builtin, transform.Transform):
        context.load_dialect(dialect)
    try:
        module = read_module(text, "<transform script>", context)
    except InputError as error:
        raise ScheduleError(f"the transform script does not parse: {error}") from None
    sequences = [op for op in module.walk() if isinstance(op, transform.NamedSequenceOp)]
    entry = next((op for op in sequences if op.sym_name.data == ENTRY), None)
    if entry is None or not entry.body.blocks or len(entry.body.block.args) != 1:
        raise ScheduleError(f"a transform script has a named_sequence @{ENTRY} of one handle, the nest; add it")
    nest: SSAValue = entry.body.block.args[0]
    steps: list[ArgSpec] = []
    for op in entry.body.block.ops:
        if isinstance(op, transform.YieldOp):
            continue
        if not isinstance(op, transform.ApplyRegisteredPassOp):
            raise ScheduleError(f"a schedule is read from {APPLY}, got {op.name}; leave it out")
        if op.target is not nest:
            raise ScheduleError(f"{op.pass_name} is applied to another handle than the pass before gave; use that")
        steps.append(ArgSpec(op.pass_name.data, {name: _values(at) for name, at in op.options.data.items()}))
        nest = op.result
    return steps


def _values(attribute: Attribute) -> tuple[Any, ...]:
    if isinstance(attribute, ArrayAttr):
        return tuple(value for each in attribute.data for value in _values(each))
    if isinstance(attribute, StringAttr):
        return (attribute.data,)
    if isinstance(attribute, IntegerAttr | FloatAttr):
        value = attribute.value.data
        return (bool(value),) if attribute.type == i1 else (value,)
    raise ScheduleError(f"an option of a pass is a number, a word or an array of them, got {attribute}")
