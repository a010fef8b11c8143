"""Data of other libraries: tensors of PyTorch, and models of ONNX and OpenVINO."""
