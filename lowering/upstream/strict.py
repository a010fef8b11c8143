"""A module at loops level as upstream knows it: without the attributes of our dialect."""

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr

from ...ir.errors import ScheduleError
from ..nest.queries import functions

OURS = ("gather", "graph")


def strict_module(module: ModuleOp, entry: str | None = None) -> ModuleOp:
    """Return a copy that a plain `mlir-opt` takes: without our discardable attributes.

    Args:
        module: upstream's operations alone, as `lower-nest-to-loops` and the passes behind it leave them.
        entry: the new name of its function; as it is when omitted.

    Raises:
        ScheduleError: it has operations of ours, which upstream does not know.
    """
    left = sorted({op.name for op in module.walk() if op.name.partition(".")[0] in OURS})
    if left:
        raise ScheduleError(
            f"upstream MLIR does not know {', '.join(left)}; lower the module to loops first, such as with "
            "gathernest-opt -p default"
        )
    copy = module.clone()
    for op in copy.walk():
        op.attributes = {name: value for name, value in op.attributes.items() if not name.startswith("gather.")}
    for function in functions(copy):
        _make_callable(function, function.sym_name.data if entry is None else entry)
    return copy


def _make_callable(function: func.FuncOp, name: str) -> None:
    """Drop the attributes of a function's arguments, and have upstream make a form of it that C can call."""
    if function.is_declaration:
        return
    function.arg_attrs = ArrayAttr([DictionaryAttr({}) for _ in function.body.block.args])
    function.sym_name = StringAttr(name)
    function.attributes["llvm.emit_c_interface"] = UnitAttr()
