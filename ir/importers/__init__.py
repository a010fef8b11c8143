"""Models from ONNX and OpenVINO files, as modules of the `gather` and `graph` dialects."""
