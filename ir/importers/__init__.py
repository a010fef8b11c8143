"""Model files read into one module of the IR: `onnx` and `openvino`, on what `graph_builder` and `files` offer both."""
