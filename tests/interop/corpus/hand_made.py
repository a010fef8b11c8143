"""Models that no exporter of torch writes, as ONNX text: strings, bodies, local functions, shared names, other domains.

Needs onnx only. `MODELS` has the text of each, and `inputs_of` makes its inputs.
"""

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser

HEAD = '<ir_version: 10, opset_import: ["": 21{more}]>\n'
ROWS, DIM = 60, 8

# Initializers that a text names and does not have, by name.
TABLES = {
    "table": np.random.default_rng(1).standard_normal((ROWS, DIM)).astype(np.float32),
    "half": np.random.default_rng(2).standard_normal((ROWS, DIM)).astype(np.float16),
    "bytes": np.random.default_rng(3).integers(0, 255, (ROWS, DIM)).astype(np.uint8),
    "scales": np.random.default_rng(4).random(ROWS, np.float32),
    "points": np.random.default_rng(5).integers(0, 255, ROWS).astype(np.uint8),
    "words": np.array([f"word {number}" for number in range(ROWS)], object),
    "columns": np.random.default_rng(6).random(DIM, np.float32),
    "scale": np.array(0.02, np.float32),
    "point": np.array(128, np.uint8),
    "zero": np.array([0]),
    "one": np.array([1]),
    "two": np.array(2),
    "axes": np.array([1]),
}

MODELS = {
    "columns_of_rows": "(int64[batch, 3] ids) => (float[60, batch, 3] y) "
    "{ places = Mod (ids, eight) y = Gather <axis = 1> (table, places) }",
    "computed_table": "(float[60, 8] x, int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ wide = MatMul (table, square) sums = Add (wide, x) y = Gather (sums, ids) }",
    "cast_input": "(float16[60, 8] x, int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ wide = Cast <to = 1> (x) y = Gather (wide, ids) }",
    "cast_tuples": "(int64[batch, 1] ids) => (float[batch, 8] y) "
    "{ wide = Cast <to = 1> (half) y = GatherND (wide, ids) }",
    "dequantised_elements": "(int64[60, k] picks) => (float[60, k] y) { wide = DequantizeLinear (bytes, scale, point) "
    "places = Mod (picks, eight) y = GatherElements <axis = 1> (wide, places) }",
    "dequantised_and_scaled": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ wide = DequantizeLinear <axis = 1> (bytes, columns) more = Mul (wide, scale) y = Gather (more, ids) }",
    "rows_left_out": "(int64[batch, 6] ids, bool[batch, 6, 1] mask) => (float[batch, 8] y) "
    "{ rows = Gather (table, ids) some = Where (mask, nought, rows) y = ReduceMean <keepdims = 0> (some, axes) }",
    "strings": "(int64[batch, 3] ids) => (string[batch, 3] y) { y = Gather (words, ids) }",
    "string_input": "(string[n] names, int64[batch, 3] ids) => (string[batch, 3] y) { y = Gather (names, ids) }",
    "output_twice": "(int64[batch, 3] ids) => (float[batch, 3, 8] y, float[batch, 3, 8]y) { y = Gather (table, ids) }",
    "input_is_output": "(int64[batch, 3] ids) => (int64[batch, 3] ids, float[batch, 3, 8] y) "
    "{ y = Gather (table, ids) }",
    "table_is_output": "(int64[batch, 3] ids) => (float[60, 8] table, float[batch, 3, 8] y) "
    "{ y = Gather (table, ids) }",
    "initializer_is_input": "(int64[batch, 3] ids, float[60, 8] table) => (float[batch, 3, 8] y) "
    "{ y = Gather (table, ids) }",
    "one_name_two_sizes": "(int64[n, 3] ids, int64[n, 3] others) => (float[a, 3, 8] y, float[b, 3, 8] z) "
    "{ y = Gather (table, ids) z = Gather (table, others) }",
    "dequantised_table": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ wide = DequantizeLinear (bytes, scale, point) y = Gather (wide, ids) }",
    "dequantised_rows": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ rows = Gather (bytes, ids) y = DequantizeLinear (rows, scale, point) }",
    "dequantised_by_row": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ wide = DequantizeLinear <axis = 0> (bytes, scales, points) y = Gather (wide, ids) }",
    "dequantised_by_column": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ wide = DequantizeLinear <axis = 1> (bytes, columns) y = Gather (wide, ids) }",
    "cast_table": "(int64[batch, 3] ids) => (float[batch, 3, 8] y, float16[batch, 3, 8] z) "
    "{ wide = Cast <to = 1> (half) y = Gather (wide, ids) z = Gather (half, ids) }",
    "scaled_table": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ wide = Mul (table, scale) sums = Add (wide, scale) y = Gather (sums, ids) }",
    "double_table": "(int32[batch, 3] ids) => (double[batch, 8] y) "
    "{ wide = Cast <to = 11> (table) rows = Gather (wide, ids) y = ReduceSum <keepdims = 0> (rows, axes) }",
    "dequantised_sum": "(int64[batch, 3] ids) => (float[batch, 8] y) { wide = DequantizeLinear (bytes, scale, point) "
    "rows = Gather (wide, ids) y = ReduceSum <keepdims = 0> (rows, axes) }",
    "sum_of_tuples": "(int64[batch, 3] ids) => (float[batch, 8] y) { places = Unsqueeze (ids, final) "
    "rows = GatherND (table, places) y = ReduceSum <keepdims = 0> (rows, axes) }",
    "gather_of_gather": "(int64[batch, 3] ids, int64[k] picks) => (float[k, 3, 8] y) "
    "{ rows = Gather (table, ids) y = Gather (rows, picks) }",
    "computed_indices": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ more = Mul (ids, two) size = Shape (table) rows = Gather (size, zero) places = Mod (more, rows) "
    "y = Gather (table, places) }",
    "negative_axis": "(int64[batch, 3] ids) => (float[60, batch, 3] y) "
    "{ places = Mod (ids, eight) y = Gather <axis = -1> (table, places) }",
    "gather_nd": "(float[batch, 5, 4] x, int64[batch, 2, 1] picks) => (float[batch, 2, 4] y) "
    "{ places = Mod (picks, five) y = GatherND <batch_dims = 1> (x, places) }",
    "gather_elements": "(float[batch, 5] x, int64[batch, 5] picks) => (float[batch, 5] y) "
    "{ places = Mod (picks, five) y = GatherElements <axis = 1> (x, places) }",
    "weighted_sum": "(int64[batch, 6] ids, float[batch, 6, 1] weights) => (float[batch, 8] y) "
    "{ rows = Gather (table, ids) products = Mul (rows, weights) y = ReduceSum <keepdims = 0> (products, axes) }",
    "mean_kept": "(int64[batch, 6] ids) => (float[batch, 1, 8] y) { rows = Gather (table, ids) "
    "y = ReduceMean <keepdims = 1> (rows, axes) }",
    "rows_read_twice": "(int64[batch, 6] ids) => (float[batch, 8] y, float[batch, 6, 8] z) "
    "{ rows = Gather (table, ids) y = ReduceSum <keepdims = 0> (rows, axes) z = Neg (rows) }",
    "if_bodies": "(int64[batch, 3] ids, bool flag) => (float[batch, 3, 8] y) { y = If (flag) <"
    "then_branch = g1 () => (float[batch, 3, 8] a) { a = Gather (table, ids) }, "
    "else_branch = g2 () => (float[batch, 3, 8] b) { c = Gather (table, ids) b = Neg (c) }> }",
    "loop_body": "(int64[batch, 3] ids, float[batch, 3, 8] start) => (float[batch, 3, 8] y) { y = Loop (two, , start) <"
    "body = g (int64 i, bool keep, float[batch, 3, 8] s) => (bool go, float[batch, 3, 8] t) "
    "{ go = Identity (keep) rows = Gather (table, ids) t = Add (s, rows) }> }",
    "scan_body": "(int64[batch, 3] ids, float[8] start) => (float[8] last, float[batch, 8] y) "
    "{ last, y = Scan <num_scan_inputs = 1, body = g (float[8] s, int64[3] row) => (float[8] t, float[8] out) "
    "{ rows = Gather (table, row) sums = ReduceSum <keepdims = 0> (rows, zero) t = Add (s, sums) "
    "out = Identity (t) }> (start, ids) }",
    "lookup_function": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) { y = custom.lookup (table, ids) }\n"
    '<domain: "custom", opset_import: ["": 21]> inner (rows, places) => (found) '
    "{ a = Gather (rows, places) b = Relu (a) found = Neg (b) }\n"
    '<domain: "custom", opset_import: ["": 21, "custom": 1]> lookup (rows, places) => (found) '
    "{ found = custom.inner (rows, places) }",
    "optional_value": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) "
    "{ rows = Gather (table, ids) held = Optional (rows) y = OptionalGetElement (held) }",
    "sequence": "(int64[batch, 3] ids) => (float[batch, 3, 8] y) { rows = Gather (table, ids) "
    "parts = SequenceConstruct (rows, rows) y = SequenceAt (parts, one_place) }",
    "scatter_after": "(int64[batch, 3] ids, int64[batch, 3] targets) => (float[60, 8] y) "
    '{ rows = Gather (table, ids) places = Unsqueeze (targets, final) sums = ScatterND <reduction = "add"> '
    "(table, places, rows) y = Identity (sums) }",
    "unused": "(int64[batch, 3] ids, float[batch] other) => (float[batch, 3, 8] y) "
    "{ y = Gather (table, ids) waste = Gather (half, ids) }",
    "no_gather": "(float[batch, 8] x) => (float[batch, 8] y) { y = Relu (x) }",
    "scalar_index": "(int64 id) => (float[8] y) { y = Gather (table, id) }",
}
# The gathers that can run here, by what `ModelGather.kind` says of them; other models have one plain Gather.
KINDS = {
    "dequantised_table": ["Gather before DequantizeLinear"],
    "dequantised_by_row": ["Gather before DequantizeLinear"],
    "dequantised_by_column": ["Gather before DequantizeLinear"],
    "dequantised_elements": ["GatherElements before DequantizeLinear"],
    "dequantised_and_scaled": ["Gather before DequantizeLinear Mul"],
    "cast_table": ["Gather before Cast", "Gather"],
    "cast_input": ["Gather before Cast"],
    "cast_tuples": ["GatherND before Cast"],
    "double_table": ["Gather before Cast"],
    "dequantised_sum": ["Gather before DequantizeLinear"],
    "sum_of_tuples": ["ReduceSum of GatherND"],
    "scaled_table": ["Gather before Mul Add"],
    "weighted_sum": ["ReduceSum of Gather"],
    "mean_kept": ["ReduceMean of Gather"],
    "rows_left_out": ["ReduceMean of Gather"],
    "gather_nd": ["GatherND"],
    "gather_elements": ["GatherElements"],
    **{name: ["Gather"] * 2 for name in ("one_name_two_sizes", "gather_of_gather", "unused")},
    **{name: [] for name in ("scalar_index", "strings", "string_input", "no_gather")},
    **{name: [] for name in ("if_bodies", "loop_body", "scan_body")},
}
TABLES |= {"square": np.random.default_rng(7).standard_normal((DIM, DIM)).astype(np.float32), "nought": np.float32(0)}
TABLES |= {"eight": np.array(8), "five": np.array(5), "one_place": np.array(1), "final": np.array([-1])}


def make(name: str) -> onnx.ModelProto:
    """Return a model by its name."""
    text = HEAD.format(more=', "custom": 1' if "custom." in MODELS[name] else "") + f"{name} {MODELS[name]}"
    model = onnx.parser.parse_model(text)
    read = {used for node in _nodes(model.graph) for used in node.input} | {info.name for info in model.graph.output}
    for key in sorted(read & TABLES.keys()):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(TABLES[key]), key))
    return model


def _nodes(graph: onnx.GraphProto):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def inputs_of(model: onnx.ModelProto, batch: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random inputs: integers below the rows of the tables, and `batch` for each size that has a name.

    Inputs that have a value in the model are left out.
    """
    rng, found = np.random.default_rng(seed), {}
    stored = {tensor.name for tensor in model.graph.initializer}
    for place, info in enumerate(model.graph.input):
        if info.name in stored:
            continue
        sizes = [dim.dim_value or batch for dim in info.type.tensor_type.shape.dim]
        if model.graph.name == "one_name_two_sizes" and place:
            sizes[0] += 1
        high = batch if model.graph.name == "gather_of_gather" and place else ROWS
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if dtype.hasobject:
            found[info.name] = np.array([f"name {number}" for number in range(ROWS)], object)
        elif dtype.kind == "f":
            found[info.name] = rng.standard_normal(sizes).astype(dtype)
        else:
            found[info.name] = rng.integers(0, 2 if dtype.kind == "b" else high, sizes).astype(dtype)
    return found
