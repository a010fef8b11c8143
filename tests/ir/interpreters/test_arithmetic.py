"""The interpreter's arithmetic is that of the machine: two's complement of the type's width."""

import numpy as np
import pytest

from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import parse_module


def evaluate(body: str) -> int:
    text = f"""func.func @gather(%data: memref<1xi64>, %indices: memref<1xi64>, %out: memref<1xi64>) {{
      %c0 = arith.constant 0 : index
      {body}
      memref.store %r, %out[%c0] : memref<1xi64>
      func.return
    }}"""
    out = np.zeros(1, np.int64)
    interpret(parse_module(text), out.copy(), out.copy(), out)
    return int(out[0])


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("addi", 2**63 - 1, 1, -(2**63)),
        ("subi", -(2**63), 1, 2**63 - 1),
        ("muli", 2**62, 2, -(2**63)),
        ("andi", -2, 7, 6),
        ("ori", -8, 5, -3),
        ("shrsi", -5, 63, -1),
        ("shrsi", 5, 63, 0),
        ("remsi", -7, 5, -2),
        ("remsi", 7, 5, 2),
        ("divui", -2, 3, (2**64 - 2) // 3),
        ("remui", -1, 10, 5),
        ("minsi", -1, 3, -1),
        ("maxsi", -1, 3, 3),
        ("minui", -1, 3, 3),
        ("minui", 2, 3, 2),
    ],
)
def test_operation_has_its_meaning(op, left, right, expected):
    constants = f"%a = arith.constant {left} : i64\n%b = arith.constant {right} : i64\n"
    assert evaluate(f"{constants}%r = arith.{op} %a, %b : i64") == expected


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
@pytest.mark.parametrize(("left", "right"), [(-1, 1), (1, -1), (3, 3), (2, 3)])
def test_comparison_has_its_sign(predicate, left, right):
    a, b = (left, right) if not predicate.startswith("u") else (left % 2**64, right % 2**64)
    expected = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[predicate[-2:]]
    body = f"""%a = arith.constant {left} : i64
      %b = arith.constant {right} : i64
      %c = arith.cmpi {predicate}, %a, %b : i64
      %r = arith.extui %c : i1 to i64"""
    assert evaluate(body) == expected


@pytest.mark.parametrize(
    ("op", "value", "expected"), [("extsi", -3, -3), ("extui", -3, 253), ("extsi", 5, 5), ("extui", 5, 5)]
)
def test_narrow_value_is_extended(op, value, expected):
    assert evaluate(f"%a = arith.constant {value} : i8\n%r = arith.{op} %a : i8 to i64") == expected


@pytest.mark.parametrize(("word", "expected"), [("true", 7), ("false", 9)])
def test_select_and_if_choose(word, expected):
    constants = f"%m = arith.constant {word}\n%a = arith.constant 7 : i64\n%b = arith.constant 9 : i64\n"
    assert evaluate(f"{constants}%r = arith.select %m, %a, %b : i64") == expected
    branches = "scf.yield %a : i64\n} else {\nscf.yield %b : i64\n}"
    assert evaluate(f"{constants}%r = scf.if %m -> (i64) {{\n{branches}") == expected


def test_loop_carries_its_value():
    body = """%c1 = arith.constant 2 : index
      %c7 = arith.constant 7 : index
      %none = arith.constant 100 : i64
      %r = scf.for %i = %c0 to %c7 step %c1 iter_args(%sum = %none) -> (i64) {
        %wide = arith.index_cast %i : index to i64
        %next = arith.addi %sum, %wide : i64
        scf.yield %next : i64
      }"""
    assert evaluate(body) == 100 + 0 + 2 + 4 + 6


def test_parallel_loop_reduces_every_point_once():
    body = """%c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c5 = arith.constant 5 : index
      %none = arith.constant 1000 : i64
      %r = scf.parallel (%i, %j) = (%c0, %c1) to (%c5, %c5) step (%c2, %c1) init (%none) -> i64 {
        %k = arith.muli %i, %c5 : index
        %p = arith.addi %k, %j : index
        %wide = arith.index_cast %p : index to i64
        scf.reduce(%wide : i64) {
        ^bb0(%a: i64, %b: i64):
          %c = arith.addi %a, %b : i64
          scf.reduce.return %c : i64
        }
      }"""
    assert evaluate(body) == 1000 + sum(i * 5 + j for i in (0, 2, 4) for j in (1, 2, 3, 4))
