"""Splitting an ONNX model: gathers of large tables run here, and the rest in ONNX Runtime."""
