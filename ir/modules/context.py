"""The xDSL context in which every stage parses and prints, and the checks that every stage must pass."""

import re
from io import StringIO

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRLexer

from ..dialects.gather_dialect import Gather
from ..dialects.graph_ops import Graph
from ..dialects.upstream import MemRef, Scf, Vector
from .dominance import check_dominance

# xDSL's own expression (0.74) takes time that doubles with each character of a string that does not end.
MLIRLexer._unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


def make_context() -> Context:
    """Return a context with the dialects of every level."""
    context = Context()
    load_dialects(context)
    return context


def load_dialects(context: Context) -> None:
    """Load the dialects of every level into a context."""
    for dialect in (Builtin, Func, Arith, Scf, MemRef, Vector, Gather, Graph):
        context.load_dialect(dialect)


def parse_module(text: str, name: str = "<input>") -> ModuleOp:
    """Parse and verify a module.

    Raises:
        xdsl.utils.exceptions.ParseError: with line, column and caret.
        xdsl.utils.exceptions.VerifyException: the module is not valid.
    """
    module = Parser(make_context(), text, name).parse_module()
    verify_module(module)
    return module


def print_generic(module: ModuleOp) -> str:
    """Return the module's text in MLIR's generic syntax."""
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    return stream.getvalue() + "\n"


def verify_module(module: ModuleOp) -> None:
    """Run our dominance check, which xDSL lacks, and xDSL's verifier.

    Raises:
        xdsl.utils.exceptions.VerifyException: the module is not valid.
    """
    check_dominance(module)
    module.verify()
