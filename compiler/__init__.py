"""ONNX graph, options and a device in; a tile program for the Cloud AI 100 out."""
