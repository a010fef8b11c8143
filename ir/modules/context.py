"""The xDSL context in which every stage parses and prints, and the checks that every stage must pass.

One of the checks is that every value is defined before it is used, which xDSL's verifier does not ask. At our levels a
region has one block, so a value is visible in its own block after its definition and in every region nested there, up
to an op that is isolated from above.
"""

import re
from collections.abc import Sequence
from io import StringIO

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import Builtin, MemRefType, ModuleOp
from xdsl.dialects.func import Func, FuncOp
from xdsl.dialects.memref import DimOp
from xdsl.dialects.tensor import Tensor
from xdsl.ir import Attribute, Block, Operation, SSAValue, TypeAttribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove
from xdsl.transforms.canonicalization_patterns.utils import const_evaluate_operand
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRLexer

from ..dialects.gather_dialect import Gather
from ..dialects.upstream import Arith, MemRef, Scf, Vector
from ..errors import InternalError
from .plugins import register

# xDSL's own expression (0.74) takes time that doubles with each character of a string that does not end.
MLIRLexer._unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


DIALECTS = (Builtin, Func, Arith, Scf, MemRef, Vector, Tensor, Gather)


class OpenContext(Context):
    """A context that asks other packages for the operations, types and attributes that it does not know."""

    def get_optional_op(self, name: str, *, dialect_stack: Sequence[str] = ()) -> type[Operation] | None:
        self._register_others(name)
        return super().get_optional_op(name, dialect_stack=dialect_stack)

    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        self._register_others(name)
        return super().get_optional_type(name)

    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        self._register_others(name)
        return super().get_optional_attr(name)

    def _register_others(self, name: str) -> None:
        dialect, dot, _ = name.partition(".")
        if dot and dialect not in self._registered_dialects:
            others = register("dialects", {*get_all_dialects(), *(own.name for own in DIALECTS)})
            if dialect in others:
                self.register_dialect(dialect, others[dialect])


def make_context() -> Context:
    """Return a context with the dialects of every level; it imports dialects of other packages when needed."""
    context = OpenContext()
    load_dialects(context)
    return context


def load_dialects(context: Context) -> None:
    """Load the dialects of every level into a context."""
    for dialect in DIALECTS:
        context.load_dialect(dialect)


def parse_module(text: str, name: str = "<input>") -> ModuleOp:
    """Parse and verify a module; raises xDSL's ParseError, with line, column and caret, or its VerifyException."""
    module = Parser(make_context(), text, name).parse_module()
    verify_module(module)
    return module


def find_function(module: ModuleOp, name: str) -> FuncOp:
    """Return a function of a module; its absence is an InternalError."""
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == name:
            return op
    raise InternalError(f"the module has no function @{name}")


def print_generic(module: ModuleOp) -> str:
    """Return the module's text in MLIR's generic syntax."""
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    return stream.getvalue() + "\n"


def verify_module(module: ModuleOp) -> None:
    """Run the checks that xDSL lacks, of dominance and of `memref.dim`, and xDSL's verifier; raises VerifyException."""
    check_dominance(module)
    module.verify()


def check_dominance(root: Operation) -> None:
    """Check every operation below `root`; raises VerifyException, whose `op` uses something that is not defined."""
    _check_regions(root, set())


def _check_regions(op: Operation, visible: set[SSAValue]) -> None:
    for region in op.regions:
        inside = set[SSAValue]() if op.has_trait(IsolatedFromAbove) else visible.copy()
        if len(region.blocks) > 1:  # dominance between blocks of a control-flow graph is not checked
            for block in region.blocks:
                inside.update(block.args, *(inner.results for inner in block.ops))
        for block in region.blocks:
            _check_block(block, inside)


def _check_block(block: Block, visible: set[SSAValue]) -> None:
    visible.update(block.args)
    for op in block.ops:
        for number, operand in enumerate(op.operands):
            if operand not in visible:
                said = f"{op.name}: expected operand #{number} ({_describe(operand)}) to be defined before its use"
                raise _at(op, said)
        if isinstance(op, DimOp) and isinstance(kind := op.source.type, MemRefType):
            dim = const_evaluate_operand(op.index)
            if dim is not None and not 0 <= dim < kind.get_num_dims():
                raise _at(op, f"memref.dim: {kind} has dimensions from 0 to {kind.get_num_dims() - 1}, got {dim}")
        _check_regions(op, visible)
        visible.update(op.results)


def _at(op: Operation, message: str) -> VerifyException:
    error = VerifyException(message)
    error.op = op  # type: ignore[attr-defined]
    return error


def _describe(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else f"a value of type {value.type}"
