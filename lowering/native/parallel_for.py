"""`share`: the parallel loop of a kernel, whose tiles a thread team runs."""

from typing import Any
from weakref import WeakKeyDictionary

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.compiler import compile_extra
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.extending import intrinsic

from .call_layout import Subteam
from .word_code import I64

_RUN = ir.FunctionType(I64, [I64] * 4)
# Numba's compilation of each tile, by its dispatcher and the types of its arguments.
_TILES: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


def _share(typing: Any, team: Any, tiles: Any, tile: Any, arguments: Any) -> Any:
    """Return the sum of `tile(k, *arguments)` over k in [0, tiles), run by a subteam; None counts as 0.

    Args:
        team: int64, the address of a subteam; 0 where the caller runs the tiles one after the other.
        tiles: int64.
        tile: a function for Numba to compile, of an int64 and the arguments. It becomes a part of the caller's module.
        arguments: a tuple of numbers.
    """
    argument_types = (types.int64, *arguments)
    _compiled_tile(tile, argument_types)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        compiled = _linked_tile(context, builder, tile, argument_types)
        team_address, count, _, packed = values
        holder = builder.ptrtoint(cgutils.alloca_once_value(builder, packed), I64)
        function = _tile_function(context, builder, compiled, packed.type)
        total = cgutils.alloca_once_value(builder, I64(0))
        with builder.if_else(builder.icmp_unsigned("!=", team_address, I64(0))) as (shared, alone):
            with shared:
                run = builder.load(builder.inttoptr(team_address, _RUN.as_pointer().as_pointer()))
                address = builder.ptrtoint(function, I64)
                builder.store(builder.call(run, [team_address, address, holder, count]), total)
            with alone, cgutils.for_range(builder, count) as loop:
                result = builder.call(function, [holder, loop.index])
                builder.store(builder.add(builder.load(total), result), total)
        return builder.load(total)

    assert Subteam.RUN == 0
    return types.int64(types.int64, types.int64, tile, arguments), generate


# `share(team, tiles, tile, arguments)`; the function `tile` becomes a part of the caller.
share: Any = intrinsic(_share)


def _call(typing: Any, function: Any, arguments: Any) -> Any:
    """Return `function(*arguments)`, an int64; both are as the tile and the arguments of `share`.

    The function is not inlined: LLVM needs more than twice the time for twice the depth of a nest.
    """
    argument_types = tuple(arguments)
    _compiled_tile(function, argument_types)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        compiled = _linked_tile(context, builder, function, argument_types, attribute="noinline")
        numbers = cgutils.unpack_tuple(builder, values[1])
        _, result = context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, numbers)
        return result

    return types.int64(function, arguments), generate


# `call(function, arguments)`; the function becomes a part of the caller.
call: Any = intrinsic(_call)


def _linked_tile(context: Any, builder: Any, tile: Any, argument_types: tuple[Any, ...], *, attribute: str = "") -> Any:
    """Return Numba's compilation of a tile, with an attribute of LLVM if any, linked to the module of its caller."""
    compiled = _compiled_tile(tile, argument_types)
    if not ConfigStack().top().no_compile:  # a function that Numba loads itself
        context.add_linking_libs([compiled.library])
    elif compiled.fndesc.llvm_func_name not in builder.module.globals:
        library = llvm.parse_assembly(compiled.library.get_llvm_str())
        function = library.get_function(compiled.fndesc.llvm_func_name)
        function.linkage = "weak_odr"
        if attribute:
            function.add_function_attribute(attribute)
        context.active_code_library.add_llvm_module(library)
    return compiled


def _compiled_tile(tile: Any, argument_types: tuple[Any, ...]) -> Any:
    """Return Numba's compilation of a tile, by the settings of its caller; it is loaded nowhere."""
    made = _TILES.setdefault(tile.dispatcher, {})
    if argument_types not in made:
        flags = ConfigStack().top().copy()
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_rewrites = True
        contexts = cpu_target.typing_context, cpu_target.target_context
        made[argument_types] = compile_extra(*contexts, tile.dispatcher.py_func, argument_types, None, flags, {})
    return made[argument_types]


def _tile_function(context: Any, caller: Any, compiled: Any, packed: Any) -> ir.Function:
    """Add a C function of the arguments' address and the number of a tile, which runs that tile.

    It is not inlined where its caller runs the tiles alone: LLVM would optimise each tile twice.
    """
    name, signature = f"tile.{compiled.fndesc.llvm_func_name}", compiled.signature
    function = ir.Function(caller.module, ir.FunctionType(I64, [I64, I64]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
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
    """Give a function the line of a call: LLVM drops the lines of code that it inlines into a function without one."""
    location, module = dict(call.operands), function.module
    scope = dict(location["scope"].operands) | {"name": function.name, "linkageName": function.name}
    scope = module.add_debug_info("DISubprogram", scope, is_distinct=True)
    function.set_metadata("dbg", scope)
    builder.debug_metadata = module.add_debug_info("DILocation", location | {"scope": scope})
