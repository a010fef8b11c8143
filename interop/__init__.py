"""Data of other libraries: models of ONNX and OpenVINO."""
