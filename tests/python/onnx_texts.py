"""Models of ONNX in its text format, for tests."""

import pathlib

import onnx.parser

import heddle.onnx

FOLDER = pathlib.Path(__file__).parent / "onnx_models"
NET = """(float[n, 3] x) => (float[n, 2] y)
  <float[3, 4] w1 = {1, -2, 3, -4, 5, -6, 7, -8, 9, -1, 2, -3}, float[4] b1 = {0, 1, 0, 1},
   float[2, 4] w2 = {1, 0, -1, 2, 1, 1, 1, 1}, float[2] b2 = {0, 0}, float scale = {0.1}> {
  m = MatMul(x, w1)  s = Mul(m, scale)  h = Add(s, b1)  r = Relu(h)  y = Gemm<transB = 1>(r, w2, b2)
}"""


def parse(text, opset=20):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> model {text}')


def bytes_of(text, opset=20):
    return parse(text, opset).SerializeToString()


def load(text, opset=20, **options):
    return heddle.onnx.load(bytes_of(text, opset), **options)
