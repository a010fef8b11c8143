"""Indices that are constants: resolved while compiling."""

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, ModuleOp
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable

from ...ir.dialects.gather_dialect import MaskedLoadOp, ResolveOp
from ...ir.dialects.types import dense_array, memref_type
from ...ir.errors import BoundsError, ScheduleError
from ...ir.modules.operator_module import constant_tensor
from ...ir.positions import NOWHERE
from ...ir.positions import resolve as resolve_indices
from ...ir.reference import resolve as resolve_index
from .builder import builder_before, replace_op
from .queries import static_size


def find_global(module: ModuleOp, load: memref.GetGlobalOp) -> memref.GlobalOp:
    """Return the global that a `memref.get_global` names; raises ScheduleError when there is none."""
    found = SymbolTable.lookup_symbol(module, load.name_)
    if not isinstance(found, memref.GlobalOp):
        raise ScheduleError(f"there is no global @{load.name_.string_value()}")
    return found


def fold_constant_indices(module: ModuleOp, resolve: ResolveOp) -> bool:
    """Replace constant indices by their positions and drop the bounds handling; return whether that was possible.

    It is possible when the indices are a global, the size of the axis is known, and no index gives zeros.

    Raises:
        BoundsError: an index is not valid, in a mode that rejects it.
    """
    load, size = resolve.index.owner, static_size(resolve.size)
    if not isinstance(load, memref.LoadOp) or not isinstance(load.memref.owner, memref.GetGlobalOp) or size is None:
        return False
    get_global = load.memref.owner
    holder = find_global(module, get_global)
    assert isinstance(holder.initial_value, DenseIntOrFPElementsAttr)
    values = dense_array(holder.initial_value)
    if resolve.unsigned is not None:
        values = values.view(f"u{values.dtype.itemsize}")
    positions = resolve_indices(values, size, resolve.bounds.data)
    for place in np.flatnonzero(positions == NOWHERE)[:1]:
        try:
            resolve_index(int(values.flat[place]), size, resolve.bounds.data)
        except BoundsError as error:
            raise BoundsError(f"constant {error} (element {place} of the indices)") from None
        return False
    value = constant_tensor(positions).value
    assert isinstance(value, DenseIntOrFPElementsAttr)
    type_ = memref_type(positions.shape, value.get_element_type(), None)
    holder.initial_value = value
    holder.properties["type"] = type_
    Rewriter.replace_value_with_new_type(get_global.memref, type_)
    builder = builder_before(resolve)
    index = builder.load(load.memref, load.indices, "index")
    position = builder.cast(index, IndexType(), "position")
    for use in list(resolve.valid.uses):
        masked = use.operation
        assert isinstance(masked, MaskedLoadOp)
        plain = memref.LoadOp.get(masked.memref, masked.subscripts)
        plain.res.name_hint = "element"
        replace_op(masked, plain)
    resolve.position.replace_all_uses_with(position)
    Rewriter.erase_op(resolve)
    Rewriter.erase_op(load)
    return True
