"""Steps as a script of MLIR's `transform` dialect: one `apply_registered_pass` a step, in one named sequence.

Upstream's `mlir-opt` parses and prints such scripts. Only gathernest has the passes that they name.
"""

from collections.abc import Iterable
from typing import Any, get_origin, get_type_hints

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import transform
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    Builtin,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.arg_spec import ArgSpec

from ...ir.errors import ScheduleError, show
from ...ir.modules.read_module import InputError, read_module
from ..registry import all_passes
from ..schedule.steps import OtherStep, Step

ENTRY = "__transform_main"
MARK = "transform.with_named_sequence"


def transform_script(steps: Iterable[Step]) -> str:
    """Return the script that applies steps one after the other."""
    handle = transform.AnyOpType()
    block = Block(arg_types=[handle])
    builder = Builder(InsertPoint.at_end(block))
    nest: SSAValue = block.args[0]
    nest.name_hint = "nest"
    for step in steps:
        op = transform.ApplyRegisteredPassOp(step.name, nest)
        op.properties["options"] = DictionaryAttr(_options(step))
        nest = builder.insert(op).result
    builder.insert(transform.YieldOp())
    sequence = transform.NamedSequenceOp(ENTRY, FunctionType.from_lists([handle], []), Region(block))
    return str(ModuleOp([sequence], {MARK: UnitAttr()})) + "\n"


def _options(step: Step) -> dict[str, Attribute]:
    """Return the options of a step; one that takes several values has an array."""
    given = step.given
    if isinstance(step, OtherStep):
        kinds = get_type_hints(all_passes()[step.name]())
        is_list = {name: get_origin(kinds[name.replace("-", "_")]) is tuple for name in given}
        given = {name: v if is_list[name] or len(v) != 1 else v[0] for name, v in given.items()}
    return {
        name: ArrayAttr([_attribute(each) for each in value]) if isinstance(value, tuple) else _attribute(value)
        for name, value in given.items()
    }


def _attribute(value: Any) -> Attribute:
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    return FloatAttr(value, f64) if isinstance(value, float) else StringAttr(value)


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
            raise ScheduleError(f"a schedule is read from transform.apply_registered_pass, got {op.name}; leave it out")
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
