"""Models of ONNX and OpenVINO, which run in their own runtimes, with gathers that run here."""
