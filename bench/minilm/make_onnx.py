# SPDX-License-Identifier: Apache-2.0
"""Writes the encoder as an ONNX model, the way the usual exporter does, so that ONNX Runtime's optimiser recognises and fuses it.

    make_onnx.py MODEL_DIR OUT.onnx [--fuse]

--fuse runs onnxruntime.transformers.optimizer (attention, skip-layer-norm, embedding and bias-GELU fusion), ONNX Runtime's own tool for this model family.
"""
import argparse
import json
import math
import pathlib
import struct

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def load_safetensors(path):
    raw = numpy.memmap(path, dtype=numpy.uint8, mode="r")
    header_bytes = struct.unpack("<Q", raw[:8].tobytes())[0]
    header = json.loads(raw[8 : 8 + header_bytes].tobytes())
    out = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + header_bytes + v for v in entry["data_offsets"])
        out[name] = numpy.frombuffer(raw[begin:end].tobytes(), dtype="<f4").reshape(entry["shape"])
    return out


class Graph:
    def __init__(self):
        self.nodes, self.initializers, self.count = [], [], 0

    def const(self, value, name=None):
        if name is None:
            name = f"const_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(numpy.array(value, order="C"), name))
        return name

    def op(self, kind, *inputs, output=None, **attributes):
        self.count += 1
        output = output or f"{kind.lower()}_{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=f"{kind}_{self.count}", **attributes))
        return output


def build(weights, hidden=384, heads=12, layers=6, eps=1e-12):
    g = Graph()
    i64 = lambda *v: g.const(numpy.array(v, dtype=numpy.int64))
    f32 = lambda v: g.const(numpy.array(v, dtype=numpy.float32))
    w = lambda name: g.const(weights[name], name)

    def linear(x, prefix):
        matmul = g.op("MatMul", x, g.const(weights[prefix + ".weight"].T, prefix + ".weight_t"))
        return g.op("Add", w(prefix + ".bias"), matmul)

    def norm(x, prefix):
        return g.op("LayerNormalization", x, w(prefix + ".weight"), w(prefix + ".bias"), axis=-1, epsilon=eps)

    shape = g.op("Shape", "input_ids")
    length = g.op("Gather", shape, g.const(numpy.array(1, dtype=numpy.int64)), axis=0)
    length1 = g.op("Unsqueeze", length, i64(0))
    positions = g.op("Slice", g.const(numpy.arange(512, dtype=numpy.int64)[None], "position_ids"), i64(0), length1, i64(1), i64(1))
    x = g.op("Add", g.op("Gather", w("embeddings.word_embeddings.weight"), "input_ids"),
             g.op("Gather", w("embeddings.token_type_embeddings.weight"), "token_type_ids"))
    x = g.op("Add", x, g.op("Gather", w("embeddings.position_embeddings.weight"), positions))
    x = norm(x, "embeddings.LayerNorm")

    mask4 = g.op("Unsqueeze", g.op("Unsqueeze", "attention_mask", i64(1)), i64(2))
    mask = g.op("Mul", g.op("Sub", f32(1.0), g.op("Cast", mask4, to=TensorProto.FLOAT)), f32(-3.4028234663852886e38))
    split = lambda y, perm: g.op("Transpose", g.op("Reshape", y, i64(0, 0, heads, hidden // heads)), perm=perm)
    for i in range(layers):
        p = f"encoder.layer.{i}."
        # Same order as the exporter: query, key, value.
        q = linear(x, p + "attention.self.query")
        k = linear(x, p + "attention.self.key")
        v = linear(x, p + "attention.self.value")
        q, k, v = split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]), split(v, [0, 2, 1, 3])
        scores = g.op("Div", g.op("MatMul", q, k), f32(math.sqrt(hidden // heads)))
        probs = g.op("Softmax", g.op("Add", scores, mask), axis=-1)
        context = g.op("Transpose", g.op("MatMul", probs, v), perm=[0, 2, 1, 3])
        context = g.op("Reshape", context, i64(0, 0, hidden))
        x = norm(g.op("Add", linear(context, p + "attention.output.dense"), x), p + "attention.output.LayerNorm")
        y = linear(x, p + "intermediate.dense")
        erf = g.op("Erf", g.op("Div", y, f32(math.sqrt(2.0))))
        y = g.op("Mul", g.op("Mul", y, g.op("Add", erf, f32(1.0))), f32(0.5))
        x = norm(g.op("Add", linear(y, p + "output.dense"), x), p + "output.LayerNorm")

    m = g.op("Cast", g.op("Unsqueeze", "attention_mask", i64(2)), to=TensorProto.FLOAT)
    pooled = g.op("Div", g.op("ReduceSum", g.op("Mul", x, m), i64(1), keepdims=0),
                  g.op("Clip", g.op("ReduceSum", m, i64(1), keepdims=0), f32(1e-9)))
    length = g.op("Clip", g.op("Sqrt", g.op("ReduceSum", g.op("Mul", pooled, pooled), i64(1), keepdims=1)), f32(1e-12))
    g.op("Div", pooled, length, output="sentence_embedding")

    ids = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "sequence"])
           for n in ("input_ids", "attention_mask", "token_type_ids")]
    out = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", hidden])
    graph = helper.make_graph(g.nodes, "minilm", ids, [out], g.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model_dir", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--fuse", action="store_true")
    args = parser.parse_args()
    onnx.save(build(load_safetensors(args.model_dir / "model.safetensors")), args.output)
    if args.fuse:
        from onnxruntime.transformers import optimizer

        optimised = optimizer.optimize_model(str(args.output), model_type="bert", num_heads=12, hidden_size=384, opt_level=0)
        optimised.save_model_to_file(str(args.output))
        print("fused:", {k: v for k, v in optimised.get_fused_operator_statistics().items() if v})


if __name__ == "__main__":
    main()
