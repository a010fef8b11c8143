"""Bags of indices in models: layers of OpenVINO, loops that torch exports to ONNX, and reductions of gathered rows."""
