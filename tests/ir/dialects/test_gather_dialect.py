"""What the dialect reads, prints and rejects, where no file of tests/filecheck shows it."""

import pytest
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.utils.exceptions import ParseError, VerifyException

from gathernest.ir.dialects.gather_dialect import GatherElementsOp, GatherNdOp, GatherOp
from gathernest.ir.modules.context import parse_module, print_generic, verify_module


def function(body: str) -> str:
    arguments = (
        "%n: index, %x: i64, %m: i1, %d: memref<5x4xi32>, %t: tensor<5x4xf32>, %i: tensor<3xi64>, "
        "%i8: memref<5xi8>, %i5: tensor<5xi64>, %w: tensor<2x3x2xi32>"
    )
    return f"func.func @f({arguments}) {{\n  {body}\n  func.return\n}}"


@pytest.mark.parametrize(
    "line",
    [
        "%r = gather.gather %t, %i axis 0 batch_dims 0 bounds error : "
        "tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>",
        '%r = gather.gather %t, %i axis -2 batch_dims -1 bounds clip version "a \\22b\\22" {note} : '
        "tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>",
        "gather.gather %d, %i8 into %d axis 0 batch_dims 0 bounds zero unsigned {note} : "
        "memref<5x4xi32>, memref<5xi8>, memref<5x4xi32>",
        '%r = gather.gather_grad %t, %i5 axis 0 batch_dims 0 bounds zero scale -5.000000e-01 version "v" : '
        "tensor<5x4xf32>, tensor<5xi64> -> tensor<9x4xf32>",
        "%r = gather.gather_weighted %t, %w bounds zero unsigned_data unsigned : "
        "tensor<5x4xf32>, tensor<2x3x2xi32> -> tensor<2x4xf32>",
        "gather.loop parallel a(%a) = %n to %n step %n {\n  } {note}",
        '%s = gather.loop "a b"(%a) = %n to %n step %n sum {\n    gather.yield %x : i64\n  }',
        "%p, %v = gather.resolve %x within %n bounds wrap unsigned {note} : i64",
        "%p, %v = gather.resolve %x within %n bounds unchecked : i64",
        "%e = gather.masked_load %d[%n, %n], %m {note} : memref<5x4xi32> -> i32",
        "scf.parallel (%a, %b) = (%n, %n) to (%n, %n) step (%n, %n) {\n  } {note}",
        "func.func private @g() -> () attributes {mode = #gather<bounds zero>, view = #gather.view<outer[0, 1]>}",
        'func.func private @g(!gather.bytes<5, "|S5">, !gather.bytes<7, "void56">)',
    ],
)
def test_operation_prints_as_it_is_written_and_reads_back(line):
    module = parse_module(function(line))
    assert line.replace("\n", "\n  ") in str(module)
    assert str(parse_module(print_generic(module))) == str(module)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%r = gather.gather %t, %i axis 0 batch_dims 0 bounds error version one", "Expected ':'"),
        ("%r = gather.gather_grad %t, %i axis 0 batch_dims 0 bounds error scale 2", "Expected float literal"),
        ("%r = gather.gather %t, %i axis true batch_dims 0 bounds error", "Expected integer literal"),
        (
            "func.func private @g() attributes {b = #gather.bounds<zero>}",
            r"expected a bounds mode \(error, zero, .*\), as in `bounds zero` or #gather<bounds zero>",
        ),
        (
            "func.func private @g() attributes {b = #gather<bounds zeros>}",
            r"expected a bounds mode \(error, zero, clip, wrap, unchecked\), got 'zeros'; did you mean 'zero'\?",
        ),
        ("func.func private @g() attributes {v = #gather.view<batch[-1]>}", "Expected integer literal"),
    ],
)
def test_wrong_text_fails_at_its_place(line, message):
    with pytest.raises(ParseError, match=message):
        parse_module(function(line))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "%s = gather.loop a(%a) = %n to %n step %n sum {\ngather.yield\n}",
            "gather.loop a: expected gather.yield with a value, got none",
        ),
        ('gather.loop "a,b"(%a) = %n to %n step %n {\n}', "gather.loop: expected a name without commas, got 'a,b'"),
        ('gather.loop ""(%a) = %n to %n step %n {\n}', "gather.loop: expected a name without commas, got ''"),
        (
            '"gather.loop"(%n, %n, %n) <{loop_name = "a"}> ({\n^bb0(%a: i64):\n"gather.yield"() : () -> ()\n}) : '
            "(index, index, index) -> ()",
            "gather.loop a: expected one block argument of type index",
        ),
        (
            "%p, %v = gather.resolve %m within %n bounds zero : i1",
            "gather.resolve: expected an index of 8 to 64 bits, got i1",
        ),
        (
            '%e = "gather.masked_load"(%d, %n, %n, %m) : (memref<5x4xi32>, index, index, i1) -> i64',
            "gather.masked_load: expected an element of type i32, got i64",
        ),
        (
            "%r = gather.gather %t, %i axis 0 batch_dims 0 bounds error : tensor<5x4xf32>, tensor<3xi64> -> i64",
            "expected a tensor type for the result",
        ),
        (
            "gather.gather %t, %i axis 0 batch_dims 0 bounds zero : tensor<5x4xf32>, tensor<3xi64>",
            "gather.gather: expected either a result or `into`, not both or neither",
        ),
        (
            "%r = gather.gather %d, %i axis 0 batch_dims 0 bounds zero : "
            "memref<5x4xi32>, tensor<3xi64> -> tensor<3x4xi32>",
            "gather.gather: expected data and indices both tensors or both memrefs",
        ),
        (
            "%r = gather.gather_elements %t, %i axis 0 bounds zero : tensor<5x4xf32>, tensor<3xi64> -> tensor<3xf32>",
            "gather.gather_elements: expected a result of shape (3, 4), got (3,)",
        ),
    ],
)
def test_invalid_operation_says_what_was_expected(line, message):
    with pytest.raises((VerifyException, ParseError)) as raised:
        parse_module(function(line))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('!gather.bytes<4, "|S5">', "gather.bytes: expected 5 bytes for '|S5', got 4"),
        ('!gather.bytes<4, "nonsense">', "gather.bytes: 'nonsense' is not an element type"),
    ],
)
def test_bytes_are_those_of_the_named_type(text, message):
    with pytest.raises((VerifyException, ParseError)) as raised:
        parse_module(f"func.func private @f({text})")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("gather.gather %d, %i into %o axis 1 batch_dims 1 bounds zero : @5x4@, @5x3@, @5x3@", (5, 3)),
        ("gather.gather %d, %i into %o axis -1 batch_dims 0 bounds zero : @5x4@, @?x3@, @5x?x3@", (5, None, 3)),
        ("gather.gather_nd %d, %i into %o batch_dims 1 bounds zero : @2x3x4@, @2x1@, @2x4@", (2, 4)),
        ("gather.gather_elements %d, %i into %o axis 0 bounds zero : @?x4@, @9x3@, @9x3@", (9, 3)),
        ("gather.gather_elements %d, %i into %o axis 0 bounds zero : @5x4@, @9@, @9x4@", (9, 4)),
    ],
)
def test_shape_of_the_result_follows_from_the_operands(line, shape):
    types = [f"memref<{part}xi64>" for part in line.split("@")[1::2]]
    head = line.split(" : ")[0]
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(("%d", "%i", "%o"), types, strict=True))
    module = parse_module(f"func.func @f({arguments}) {{\n{head} : {', '.join(types)}\nfunc.return\n}}")
    (op,) = (op for op in module.walk() if isinstance(op, GatherOp | GatherNdOp | GatherElementsOp))
    inferred = op.infer_type()
    assert isinstance(inferred, TensorType) and inferred.element_type == IntegerType(64)
    assert tuple(size if size >= 0 else None for size in inferred.get_shape()) == shape


@pytest.mark.parametrize(
    ("body", "operand"),
    [
        ("%b = arith.addi %a, %n : index\n%a = arith.addi %n, %n : index", "#0 (%a)"),
        ("%b = arith.addi %n, %b : index", "#1 (%b)"),
        (
            "%c = arith.addi %n, %k : index\ngather.loop a(%a) = %n to %n step %n {\n%k = arith.addi %a, %n : index\n}",
            "#1 (%k)",
        ),
        ("gather.loop a(%a) = %k to %n step %n {\n}\n%k = arith.addi %n, %n : index", "#0 (%k)"),
    ],
)
def test_use_before_definition_is_rejected(body, operand):
    with pytest.raises(VerifyException) as raised:
        parse_module(function(body))
    assert f"expected operand {operand} to be defined before its use" in str(raised.value)


def test_value_of_another_region_is_rejected():
    module = parse_module(function("scf.if %m {\n%k = arith.addi %n, %n : index\n}\n%b = arith.addi %n, %n : index"))
    first, second = (op for op in module.walk() if op.name == "arith.addi")
    second.operands[0] = first.results[0]
    with pytest.raises(VerifyException, match=r"expected operand #0 \(%k\) to be defined before its use"):
        verify_module(module)
