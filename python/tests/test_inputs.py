"""Models as people have them: f16, QDQ int8, external data, symbolic dimensions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vitempo

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def network(precision: int = TensorProto.FLOAT, batch: object = 1) -> object:
    """A convolution and a product of matrices."""
    kind = helper.tensor_dtype_to_np_dtype(precision)
    random = np.random.default_rng(1)
    weights = [
        numpy_helper.from_array(random.normal(size=(32, 3, 3, 3)).astype(kind), "w"),
        numpy_helper.from_array(random.normal(size=(32, 10)).astype(kind), "v"),
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], "conv", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten", axis=1),
        helper.make_node("MatMul", ["f", "v"], ["y"], "head"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image", precision, [batch, 3, 64, 64])],
        [helper.make_tensor_value_info("y", precision, [batch, 10])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def quantized() -> object:
    """The convolution between pairs of QuantizeLinear and DequantizeLinear, as tools write them."""
    random = np.random.default_rng(1)
    constants = [
        numpy_helper.from_array(random.integers(-127, 127, (32, 3, 3, 3), np.int8), "w"),
        numpy_helper.from_array(np.float32(0.02), "s"),
        numpy_helper.from_array(np.int8(0), "z"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["image", "s", "z"], ["q"], "quantize"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "dequantize"),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["u"], "weights"),
        helper.make_node("Conv", ["d", "u"], ["c"], "conv", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["e"], "quantize_output"),
        helper.make_node("DequantizeLinear", ["e", "s", "z"], ["y"], "dequantize_output"),
    ]
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 64, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 32, 64, 64])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_proto_and_its_bytes_are_one_model(bundle):
    model = network()
    forecast = bundle.predict(model)
    assert forecast.model == "network"
    assert bundle.predict(model.SerializeToString()).ms == forecast.ms
    assert set(forecast.operators["source"]) == {"model"}


def test_half_precision():
    half = vitempo.read(network(TensorProto.FLOAT16))
    assert half.kinds == vitempo.read(network()).kinds
    phone = vitempo.Bundle.load("samsung-galaxy-s24-tflite-npu-f16")
    assert phone.predict(half).ms > 0 and phone.precision == "f16"


def test_int8_between_quantize_and_dequantize():
    model = vitempo.read(quantized())
    assert "quantize_linear" in model.kinds or any("quant" in kind for kind in model.kinds)
    bundle = vitempo.Bundle.load("epyc-onnxruntime-int8-1t")
    forecast = bundle.predict(model)
    kinds = set(forecast.operators["kind"])
    assert forecast.ms > 0 and not forecast.unsupported
    assert any("conv" in kind for kind in kinds), kinds


def test_external_data(bundle, tmp_path: Path):
    path, inside = tmp_path / "model.onnx", tmp_path / "inside.onnx"
    onnx.save(network(), inside)
    onnx.save(
        network(),
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    assert (tmp_path / "weights.bin").exists()
    assert bundle.predict(path).ms == bundle.predict(inside).ms
    # Only shapes count: the weights may be elsewhere.
    (tmp_path / "weights.bin").unlink()
    assert bundle.predict(path).ms == bundle.predict(inside).ms


def test_symbolic_dimensions(bundle):
    model = network(batch="batch")
    with pytest.raises(vitempo.DynamicShape, match="batch") as error:
        bundle.predict(model)
    assert error.value.hint == 'give dims={"batch": 1}'
    one = bundle.predict(model, dims={"batch": 1})
    assert one.ms == bundle.predict(network()).ms
    assert bundle.predict(model, dims={"batch": 8}).ms > one.ms
