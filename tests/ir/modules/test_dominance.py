"""Where a value is visible: what `verify` of xDSL does not look into."""

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.cf import Cf
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from gathernest.ir.modules.context import check_dominance, make_context


def parse(text: str) -> ModuleOp:
    """Read a module without verifying it."""
    context = make_context()
    context.load_dialect(Cf)
    return Parser(context, text).parse_module()


def test_result_inside_the_region_of_its_own_operation_is_rejected():
    module = parse("""func.func @f(%m: i1, %n: index) {
      %k = scf.if %m -> (index) {
        %a = arith.addi %n, %n : index
        scf.yield %a : index
      } else {
        scf.yield %n : index
      }
      func.return
    }""")
    choice, addition = (op for op in module.walk() if op.name in ("scf.if", "arith.addi"))
    addition.operands[1] = choice.results[0]
    with pytest.raises(VerifyException, match=r"expected operand #1 \(%k\) to be defined before its use"):
        check_dominance(module)


def test_value_of_another_region_is_rejected():
    module = parse("""func.func @f(%m: i1, %n: index) {
      scf.if %m {
        %k = arith.addi %n, %n : index
      }
      %b = arith.addi %n, %n : index
      func.return
    }""")
    first, second = (op for op in module.walk() if op.name == "arith.addi")
    second.operands[0] = first.results[0]
    with pytest.raises(VerifyException, match=r"expected operand #0 \(%k\) to be defined before its use"):
        check_dominance(module)


def test_value_from_outside_an_isolated_operation_is_rejected():
    module = parse("""%k = arith.constant 1 : index
    func.func @f(%n: index) {
      %b = arith.addi %n, %n : index
      func.return
    }""")
    constant, addition = (op for op in module.walk() if op.name in ("arith.constant", "arith.addi"))
    addition.operands[0] = constant.results[0]
    with pytest.raises(VerifyException, match=r"expected operand #0 \(%k\) to be defined before its use"):
        check_dominance(module)


def test_blocks_of_a_graph_may_use_what_later_ones_define():
    module = parse("""func.func @f(%n: index) {
      cf.br ^second
    ^first:
      %b = arith.addi %a, %n : index
      func.return
    ^second:
      %a = arith.addi %n, %n : index
      cf.br ^first
    }""")
    check_dominance(module)
