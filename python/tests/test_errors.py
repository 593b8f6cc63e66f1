"""Errors are typed exceptions with the node they speak of and a hint."""

from __future__ import annotations

import pickle

import pytest
from conftest import MODELS, ROOT

import vitempo


def test_an_unknown_bundle_names_similar_ones():
    with pytest.raises(vitempo.UnknownBundle) as caught:
        vitempo.Bundle.load("epyc-onnxruntime-f32")
    assert isinstance(caught.value, LookupError)
    assert "epyc-onnxruntime-f32-1t" in caught.value.message
    assert caught.value.hint == "vitempo.bundles() lists the bundles that a name finds"
    assert str(caught.value).endswith(f"hint: {caught.value.hint}")


def test_files_that_are_no_bundles_and_no_models(bundle, tmp_path):
    with pytest.raises(vitempo.InvalidBundle, match="not a usable bundle"):
        vitempo.Bundle.load(MODELS / "latencies.csv")
    with pytest.raises(vitempo.InvalidModel):
        bundle.predict(ROOT / "Cargo.toml")
    with pytest.raises(vitempo.InvalidModel):
        bundle.predict(b"\x00\x01")
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes((MODELS / "mobilevit_xxs.onnx").read_bytes()[:5000])
    with pytest.raises(ValueError, match="damaged.onnx"):
        bundle.predict(damaged)
    with pytest.raises(vitempo.ModelNotFound, match="absent.onnx"):
        bundle.predict(tmp_path / "absent.onnx")
    with pytest.raises(FileNotFoundError):
        bundle.predict("absent.onnx")


def test_a_dynamic_dimension_says_how_to_give_it(bundle):
    onnx = pytest.importorskip("onnx")
    helper, tensor = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="relu")],
        "dynamic",
        [helper.make_tensor_value_info("x", tensor.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("y", tensor.FLOAT, ["batch", 3, 8, 8])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(vitempo.DynamicShape) as caught:
        bundle.predict(model)
    assert caught.value.hint == 'give dims={"batch": 1}'
    assert bundle.predict(model, dims={"batch": 1}).ms > 0


def test_an_operator_that_is_not_supported_is_named(bundle):
    onnx = pytest.importorskip("onnx")
    helper, tensor = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["y"], name="relu"),
            helper.make_node("Det", ["y"], ["z"], name="determinant"),
        ],
        "odd",
        [helper.make_tensor_value_info("x", tensor.FLOAT, [1, 8, 8])],
        [helper.make_tensor_value_info("z", tensor.FLOAT, [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    forecast = bundle.predict(model)
    assert forecast.unsupported == [("determinant", "Det")]
    assert forecast.unsupported[0].operator == "Det"
    assert forecast.coverage.fallback > 0
    assert "not supported" in forecast._repr_html_()


def test_exceptions_survive_a_pickle():
    error = vitempo.DynamicShape("wrong", node="conv", hint="mend it")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is vitempo.DynamicShape
    assert (again.message, again.node, again.hint) == ("wrong", "conv", "mend it")
    assert str(again) == "wrong\nhint: mend it"


def test_every_exception_has_one_base():
    for name in vitempo.__all__:
        value = getattr(vitempo, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, vitempo.VitempoError), name


def test_spaces_and_encodings(space):
    with pytest.raises(vitempo.InvalidSpace, match="there is no search space `vit`"):
        vitempo.Space("vit")
    with pytest.raises(vitempo.InvalidEncoding, match="hv1-288"):
        space.decode("hv1-288")
    with pytest.raises(vitempo.InvalidSpace):
        vitempo.Space.parse("family = 3")


@pytest.mark.parametrize(
    "name, hint",
    [
        ("weights.pth", "load the torch.nn.Module"),
        ("model.h5", "tf2onnx"),
        ("model.xml", "OpenVINO writes no ONNX: export the model that it was made from"),
        ("model.mlmodel", "coremltools writes no ONNX: export the model that it was made from"),
        ("model.bin", "weights alone are no model"),
        ("model.engine", "give the ONNX file that it was built from"),
        ("model.onnx", None),
    ],
)
def test_files_of_other_formats_say_what_to_do(bundle, tmp_path, name, hint):
    (tmp_path / name).write_bytes(b"\x80\x02not a model of ONNX")
    with pytest.raises(vitempo.InvalidModel) as error:
        bundle.predict(tmp_path / name)
    assert error.value.hint is None if hint is None else hint in error.value.hint


def test_a_folder_of_core_ml_says_what_to_do(bundle, tmp_path):
    folder = tmp_path / "model.mlpackage"
    folder.mkdir()
    with pytest.raises(vitempo.InvalidModel, match="model.mlpackage") as error:
        bundle.predict(folder)
    assert "coremltools writes no ONNX" in error.value.hint


@pytest.mark.parametrize(
    "framework, hint",
    [
        ("openvino", "OpenVINO writes no ONNX"),
        ("coremltools", "coremltools writes no ONNX"),
        ("tensorflow", "tf2onnx"),
        ("keras", "format='onnx'"),
    ],
)
def test_models_of_other_frameworks_say_what_to_do(bundle, framework, hint):
    kind = type("Model", (), {"__module__": f"{framework}.models"})
    own = type("Own", (kind,), {})
    for model in (kind(), own()):
        with pytest.raises(vitempo.InvalidModel, match=f"a model of {framework}") as error:
            bundle.predict(model)
        assert hint in error.value.hint
    with pytest.raises(TypeError, match="cannot forecast a object"):
        bundle.predict(object())


@pytest.mark.filterwarnings("ignore")  # theirs
def test_openvino_itself(bundle, tmp_path):
    openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
    path = vitempo.export("mobilevit_xxs", tmp_path)
    model = openvino.Core().read_model(path)
    openvino.save_model(model, tmp_path / "model.xml")
    for given in (model, tmp_path / "model.xml"):
        with pytest.raises(vitempo.InvalidModel) as error:
            bundle.predict(given)
        assert "OpenVINO writes no ONNX" in error.value.hint


@pytest.mark.filterwarnings("ignore")  # theirs
def test_core_ml_itself(bundle, tmp_path):
    coremltools = pytest.importorskip("coremltools", reason="coremltools is not installed")
    from coremltools.models import datatypes, neural_network

    builder = neural_network.NeuralNetworkBuilder(
        [("x", datatypes.Array(3))], [("y", datatypes.Array(3))]
    )
    builder.add_activation("relu", "RELU", "x", "y")
    path = tmp_path / "model.mlmodel"
    coremltools.utils.save_spec(builder.spec, str(path))
    with pytest.raises(vitempo.InvalidModel) as error:
        bundle.predict(path)
    assert "coremltools writes no ONNX" in error.value.hint


def test_numbers_below_zero_are_named(bundle, model, encodings):
    read = vitempo.read(model)
    for call, named in [
        (lambda: bundle.predict(encodings, threads=-1), "`threads` is -1"),
        (lambda: bundle.predict(model, dims={"a": -1}), "dims: `a` is -1"),
        (lambda: read.with_image_size(-1), "`height` is -1"),
        (lambda: read.with_image_size(64, -2), "`width` is -2"),
        (lambda: read.to_onnx(seed=-1), "`seed` is -1"),
        (lambda: read.to_tflite(seed=-1), "`seed` is -1"),
    ]:
        with pytest.raises(ValueError, match=named):
            call()
    assert 5 not in bundle.predict(model).operators


def test_a_path_that_no_text_has(bundle):
    with pytest.raises(vitempo.ModelNotFound):
        bundle.predict("\udcff.onnx")
