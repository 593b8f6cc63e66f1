"""Latency tables of once-for-all: keys, YAML, and that layers add up to networks."""

from __future__ import annotations

import importlib

import pytest

import vitempo
from vitempo import ofa
from vitempo._onnx import Network


def conv(inside, outside, kernel, stride, expand, act="relu", se=False):
    return {
        "in_channels": inside,
        "out_channels": outside,
        "kernel_size": kernel,
        "stride": stride,
        "expand_ratio": expand,
        "mid_channels": None,
        "act_func": act,
        "use_se": se,
    }


def network(of_v3: bool) -> dict:
    """A configuration as `MyNetwork.config` of once-for-all has it."""
    swish = "h_swish" if of_v3 else "relu6"
    blocks = [
        {"conv": conv(16, 16, 3, 1, 1, "relu"), "shortcut": {"name": "IdentityLayer"}},
        {"conv": conv(16, 24, 3, 2, 4, "relu"), "shortcut": None},
        {"conv": None, "shortcut": {"name": "IdentityLayer"}},
        {"conv": conv(24, 40, 5, 2, 3, swish, se=of_v3), "shortcut": None},
        {"conv": conv(40, 40, 5, 1, 6, swish, se=of_v3), "shortcut": {"name": "IdentityLayer"}},
    ]
    config = {"first_conv": {"out_channels": 16}, "blocks": blocks}
    if of_v3:
        config["final_expand_layer"] = {"in_channels": 40, "out_channels": 240}
        config["feature_mix_layer"] = {"in_channels": 240, "out_channels": 320}
    else:
        config["feature_mix_layer"] = {"in_channels": 40, "out_channels": 320}
    config["classifier"] = {"in_features": 320, "out_features": 1000}
    return config


def test_keys_are_those_that_the_tables_are_asked_for():
    assert ofa.layers([network(True)], 160) == [
        "Conv-input:160x160x3-output:80x80x16",
        "expanded_conv-input:80x80x16-output:80x80x16-expand:16-kernel:3-stride:1-idskip:1-se:0-hs:0",
        "expanded_conv-input:80x80x16-output:40x40x24-expand:64-kernel:3-stride:2-idskip:0-se:0-hs:0",
        "expanded_conv-input:40x40x24-output:20x20x40-expand:72-kernel:5-stride:2-idskip:0-se:1-hs:1",
        "expanded_conv-input:20x20x40-output:20x20x40-expand:240-kernel:5-stride:1-idskip:1-se:1-hs:1",
        "Conv_1-input:20x20x40-output:20x20x240",
        "AvgPool2D-input:20x20x240-output:1x1x240",
        "Conv_2-input:1x1x240-output:1x1x320",
        "Logits-input:1x1x320-output:1000",
    ]
    proxyless = ofa.layers([network(False), network(False)], 161)
    assert proxyless[0] == "Conv-input:161x161x3-output:81x81x16"
    assert proxyless[1] == (
        "expanded_conv-input:81x81x16-output:81x81x16-expand:1-kernel:3-stride:1-idskip:1"
    )
    assert proxyless[2].startswith("expanded_conv-input:81x81x16-output:41x41x24-")
    assert proxyless[-1] == "Logits-input:21x21x320-output:1000"


def whole(keys: list[str], activation: str) -> bytes:
    """The layers of these keys one after the other."""
    first = ofa.Layer.parse(keys[0])
    net = Network("whole", [1, 3, first.inside[0], first.inside[1]])
    x = "image"
    for key in keys:
        x = ofa.add(net, x, ofa.Layer.parse(key), activation)
    return net.finish(x, [1, 1000])


@pytest.mark.parametrize("name", ["epyc-onnxruntime-f32-1t", "pixel4-tflite-cpu-f32"])
@pytest.mark.parametrize("of_v3", [False, True])
def test_layers_add_up_to_the_network(name, of_v3):
    bundle = vitempo.Bundle.load(name)
    keys = ofa.layers([network(of_v3)], 224)
    table = ofa.table(bundle, keys)
    assert set(table) == set(keys) and all(row["count"] == 1 for row in table.values())
    assert all(row["mean"] >= 0 for row in table.values())
    total = sum(table[key]["mean"] for key in keys)
    forecast = bundle.predict(whole(keys, "h_swish" if of_v3 else "relu6"))
    assert forecast.unsupported == []
    assert total == pytest.approx(forecast.ms - forecast.overhead, rel=0.3)


def test_the_yaml_is_read_as_once_for_all_reads_it(bundle, tmp_path):
    keys = ofa.layers([network(True)], 128)
    table = ofa.table(bundle, keys)
    path = tmp_path / "table.yaml"
    ofa.write(path, table)
    lines = path.read_text().splitlines()
    assert lines[0] == f"{keys[0]}:" and lines[1] == "  count: 1"
    yaml = pytest.importorskip("yaml")
    read = yaml.safe_load(path.read_text())
    assert read == table and isinstance(read[keys[0]]["mean"], float)


@pytest.mark.parametrize("of_v3", [True, False])
def test_once_for_all_itself_finds_every_layer(bundle, tmp_path, monkeypatch, of_v3):
    """once-for-all's own tables ask for the layers of its own networks."""
    pytest.importorskip("torch")
    predictors = pytest.importorskip("ofa.nas.efficiency_predictor", reason="ofa is not installed")
    networks = importlib.import_module("ofa.imagenet_classification.elastic_nn.networks")
    yaml = importlib.import_module("yaml")
    # It calls `yaml.load` without a loader, which PyYAML from 6 on does not take.
    load = yaml.load
    monkeypatch.setattr(yaml, "load", lambda file, loader=yaml.SafeLoader: load(file, loader))
    elastic = {"ks_list": [3, 5, 7], "expand_ratio_list": [3, 4, 6], "depth_list": [2, 3, 4]}
    network = (networks.OFAMobileNetV3 if of_v3 else networks.OFAProxylessNASNets)(**elastic)
    sampled = []
    for _ in range(3):
        network.sample_active_subnet()
        sampled.append((network.get_active_subnet(), network.get_active_net_config()))
    keys = ofa.layers([config for _, config in sampled], 192)
    table = ofa.table(bundle, keys)
    path = tmp_path / "table.yaml"
    ofa.write(path, table)
    kind = predictors.MBv3LatencyTable if of_v3 else predictors.ProxylessNASLatencyTable
    read = kind(url=str(path))
    for net, config in sampled:
        ms = read.predict_network_latency_given_config(config, 192)
        assert ms == pytest.approx(sum(table[key]["mean"] for key in ofa._layers(config, 192)))
        assert read.predict_network_latency(net, 192) == pytest.approx(ms)


def test_keys_that_describe_no_layer(bundle):
    with pytest.raises(vitempo.InvalidModel, match="does not describe a layer"):
        ofa.table(bundle, ["Conv-input:3x3"])
    with pytest.raises(vitempo.InvalidModel, match="not a layer of these tables"):
        ofa.table(bundle, ["Pool-input:8x8x3-output:4x4x3"])


def test_divisible_channels():
    assert [ofa.divisible(n) for n in (1, 18, 20, 60, 66)] == [8, 24, 24, 64, 64]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("Conv-input:224x224x3-output:100x112x16", "its output is"),
        ("Conv_1-input:7x7x160-output:14x14x960", "its output is 7x7x960"),
        ("AvgPool2D-input:7x7x960-output:1x1x96", "its output is 1x1x960"),
        ("Logits-input:1x1x320-output:2x2x1000", "its output is 1x1x1000"),
        (
            "expanded_conv-input:28x28x24-output:28x28x24-expand:3-kernel:3-stride:2-idskip:0",
            "its output is 14x14x24",
        ),
        (
            "expanded_conv-input:28x28x24-output:14x14x24-expand:3-kernel:3-stride:2-idskip:1",
            "`idskip`",
        ),
        (
            "expanded_conv-input:28x28x24-output:28x28x24-expand:3-kernel:3-stride:1-idskip:0-x:1",
            "no option `x`",
        ),
        ("expanded_conv-input:28x28x24-output:28x28x24-expand:3-stride:1-idskip:0", "kernel"),
        ("Conv_1-input:7x7x160-output:7x7x960-kernel:3", "`Conv_1` has no option `kernel`"),
        ("Conv_1-input:7x7x0-output:7x7x960", "a size is 0"),
        ("Conv_1-input:7x7x16-input:7x7x32-output:7x7x960", "`input` is given twice"),
    ],
)
def test_keys_that_contradict_themselves(key, says):
    with pytest.raises(vitempo.InvalidModel, match=says):
        ofa.Layer.parse(key)
