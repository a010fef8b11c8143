"""`share`: the parallel loop of a kernel, whose tiles a thread team runs."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .call_layout import Subteam
from .word_code import I64

_RUN = ir.FunctionType(I64, [I64] * 4)


def _share(typing: Any, team: Any, tiles: Any, tile: Any, arguments: Any) -> Any:
    """Return the sum of `tile(k, *arguments)` over k in [0, tiles), run by a subteam; None counts as 0.

    Args:
        team: int64, the address of a subteam.
        tiles: int64.
        tile: a compiled function of an int64 and the arguments.
        arguments: a tuple of numbers.
    """
    taken = (types.int64, *arguments)
    tile_signature = tile.get_call_type(typing, taken, {})

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        compiled = tile.dispatcher.overloads[tile_signature.args]
        context.add_linking_libs([compiled.library])
        team_address, count, _, packed = values
        holder = cgutils.alloca_once_value(builder, packed)
        function = _tile_function(context, builder, compiled, tile_signature, packed.type)
        run = builder.load(builder.inttoptr(team_address, _RUN.as_pointer().as_pointer()))
        return builder.call(run, [team_address, builder.ptrtoint(function, I64), builder.ptrtoint(holder, I64), count])

    assert Subteam.RUN == 0
    return types.int64(types.int64, types.int64, tile, arguments), generate


# `share(team, tiles, tile, arguments)`, of compiled functions.
share: Any = intrinsic(_share)


def _tile_function(context: Any, caller: Any, compiled: Any, signature: Any, packed: Any) -> ir.Function:
    """Add a C function of the arguments' address and the number of a tile, which runs that tile."""
    name = f"tile.{compiled.fndesc.llvm_func_name}"
    function = ir.Function(caller.module, ir.FunctionType(I64, [I64, I64]), name)
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block("begin"))
    if caller.debug_metadata is not None:
        _name_lines(function, builder, caller.debug_metadata)
    address, number = function.args
    arguments = builder.load(builder.inttoptr(address, packed.as_pointer()))
    values = [number, *(builder.extract_value(arguments, place) for place in range(len(signature.args) - 1))]
    _, result = context.call_internal_no_propagate(builder, compiled.fndesc, signature, values)
    builder.ret(result if signature.return_type == types.int64 else I64(0))
    return function


def _name_lines(function: ir.Function, builder: Any, call: Any) -> None:
    """Give a function the line of a call: LLVM drops the lines of what it inlines into a function without any."""
    location, module = dict(call.operands), function.module
    scope = dict(location["scope"].operands) | {"name": function.name, "linkageName": function.name}
    scope = module.add_debug_info("DISubprogram", scope, is_distinct=True)
    function.set_metadata("dbg", scope)
    builder.debug_metadata = module.add_debug_info("DILocation", location | {"scope": scope})
