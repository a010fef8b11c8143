"""Write openvino_lookup.xml and .bin: `python export_openvino.py`, with openvino 2026.4.1."""

import numpy as np
import openvino as ov
from openvino import opset8 as op

table = op.constant(np.arange(24, dtype=np.float32).reshape(6, 4), name="table")
tokens = op.parameter([-1, 3], np.int64, name="tokens")
rows = op.gather(table, tokens, op.constant(np.int64(0)), name="rows")
batched = op.gather(rows, tokens, op.constant(np.int64(1)), batch_dims=1, name="batched")
shape = op.shape_of(rows, output_type="i64")
first = op.gather(shape, op.constant(np.array([0], np.int64)), op.constant(np.int64(0)))
flat = op.reshape(rows, op.concat([first, op.constant(np.array([12], np.int64))], 0), special_zero=False, name="flat")
pairs = op.gather_nd(rows, op.constant(np.array([[0, 1]], np.int64)), 0, name="pairs")
each = op.gather_elements(rows, op.convert(op.unsqueeze(tokens, op.constant(np.array([2], np.int64))), "i32"), 2)
results = [rows, batched, flat, pairs, op.squeeze(each, op.constant(np.array([-1], np.int64)))]
for node, name in zip(results, ["rows", "batched", "flat", "pairs", "each"], strict=True):
    node.output(0).set_names({name})
model = ov.Model([op.result(node) for node in results], [tokens], "lookup")
ov.save_model(model, "openvino_lookup.xml", compress_to_fp16=False)
