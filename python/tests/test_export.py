"""Models as files: ONNX and TensorFlow Lite, written and read again."""

from __future__ import annotations

import pytest
from conftest import MODELS

import vitempo

MODEL = MODELS / "mobilevit_xxs.onnx"


def test_models_that_ship_are_found_by_name():
    assert vitempo.models() == ["edgenext_xx_small", "mobilevit_xxs", "vit_tiny_patch16_224"]
    model = vitempo.Model.load("mobilevit_xxs")
    assert model.architecture == vitempo.read(MODEL).architecture
    with pytest.raises(vitempo.ModelNotFound, match="mobilevit_xs") as error:
        vitempo.Model.load("mobilevit_xs")
    assert "mobilevit_xxs" in error.value.message and "vitempo.models()" in error.value.hint


def test_architectures_are_models(space, encodings):
    model = vitempo.Model.load(encodings[0])
    assert model.architecture == vitempo.read(encodings[0]).architecture
    assert vitempo.Model.load(encodings[0], space=space).name == model.name
    with pytest.raises(vitempo.InvalidEncoding):
        vitempo.Model.load("hv1-288")
    with pytest.raises(vitempo.VitempoError):
        vitempo.Model.load(encodings[0], space="mbconv")


def test_onnx_that_is_written_is_the_model(bundle, encodings):
    onnx = pytest.importorskip("onnx")
    model = vitempo.read(encodings[1])
    empty, full = model.to_onnx(), model.to_onnx(seed=3)
    assert len(empty) < 1_000_000 < len(full)
    assert full == model.to_onnx(seed=3) and full != model.to_onnx(seed=4)
    onnx.checker.check_model(full)
    for content in (empty, full):
        assert vitempo.read(content).architecture == model.architecture
        assert bundle.predict(content).ms == pytest.approx(bundle.predict(model).ms, rel=1e-12)


def test_images_of_another_size(bundle):
    model = vitempo.read(MODEL)
    larger = model.with_image_size(256, 320)
    assert larger.name == "mobilevit_xxs@256x320" and larger.parameters == model.parameters
    assert larger.macs > 1.2 * model.macs
    assert bundle.predict(larger).ms > bundle.predict(model).ms
    assert vitempo.read(larger.to_onnx()).architecture == larger.architecture
    assert model.with_image_size(256).architecture == model.architecture
    with pytest.raises(ValueError, match="`0x7` is not a size"):
        model.with_image_size(0, 7)
    with pytest.raises(vitempo.InvalidModel, match="does not work at the new size"):
        model.with_image_size(31)


def test_files_are_written_whole(tmp_path, encodings):
    path = vitempo.export("mobilevit_xxs", tmp_path)
    assert path == str(tmp_path / "mobilevit_xxs.onnx")
    assert vitempo.read(path).architecture == vitempo.read(MODEL).architecture
    small = vitempo.export(encodings[0], tmp_path / "a.onnx", weights=False)
    assert (tmp_path / "a.onnx").stat().st_size < 1_000_000 and small == str(tmp_path / "a.onnx")
    lite = vitempo.export(MODEL, tmp_path / "b.tflite", seed=2)
    assert (tmp_path / "b.tflite").read_bytes() == vitempo.read(MODEL).to_tflite(seed=2)
    assert vitempo.read(lite).name == "b"
    with pytest.raises(OSError, match="cannot be written") as error:
        vitempo.export("mobilevit_xxs", tmp_path / "none" / "c.onnx")
    assert error.value.filename == str(tmp_path / "none" / "c.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "a.onnx",
        "b.tflite",
        "mobilevit_xxs.onnx",
    ]


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "mobilevit_xxs", "edgenext_xx_small"])
def test_a_tensorflow_lite_file_has_the_kernels_of_its_model(tmp_path, phone, name):
    litert = vitempo.Bundle.load("epyc-litert-f32-1t")
    model = vitempo.Model.load(name)
    path = tmp_path / f"{name}.tflite"
    path.write_bytes(model.to_tflite())
    assert path.read_bytes()[4:8] == b"TFL3"
    usual, lite = litert.predict(model), litert.predict(path)
    assert lite.model == name and not lite.unsupported
    assert lite.operators["kind"].tolist() == usual.operators["kind"].tolist()
    assert lite.ms == pytest.approx(usual.ms, rel=1e-6)
    assert litert.predict(path.read_bytes()).ms == lite.ms == litert.predict(str(path)).ms
    assert vitempo.read(path).macs == pytest.approx(model.macs, rel=0.02)
    assert phone.predict(path).ms == pytest.approx(phone.predict(model).ms, rel=0.1)


def test_tensorflow_lite_files_that_cannot_be_read(tmp_path, phone):
    whole = vitempo.Model.load("mobilevit_xxs").to_tflite()
    damaged = tmp_path / "damaged.tflite"
    for content in (b"", b"not a model", whole[:100], whole[:8] + b"\xff" * 400):
        damaged.write_bytes(content)
        with pytest.raises(vitempo.InvalidModel, match="damaged.tflite"):
            phone.predict(damaged)
    with pytest.raises(vitempo.ModelNotFound, match="absent.tflite"):
        phone.predict(tmp_path / "absent.tflite")
    with pytest.raises(vitempo.InvalidModel):
        phone.predict(whole[:200])


def test_what_a_format_has_no_form_for_is_named():
    onnx = pytest.importorskip("onnx")
    helper, tensor = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Det", ["x"], ["y"], name="determinant")],
        "odd",
        [helper.make_tensor_value_info("x", tensor.FLOAT, [1, 8, 8])],
        [helper.make_tensor_value_info("y", tensor.FLOAT, [1])],
    )
    model = vitempo.read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    for write in (model.to_onnx, model.to_tflite):
        with pytest.raises(vitempo.UnsupportedOperator, match="determinant"):
            write()


def test_options_that_do_not_apply_are_refused(tmp_path, space, encodings):
    out = tmp_path / "m.onnx"
    for model, options, named in [
        ("mobilevit_xxs", {"dims": {"a": 1}}, "`dims` is not for a model that ships"),
        ("mobilevit_xxs", {"inputs": (1, 3, 64, 64)}, "`inputs` is not for a model that ships"),
        ("mobilevit_xxs", {"space": space}, "`space` is for encodings"),
        (encodings[0], {"space": space, "dims": {"a": 1}}, "`dims` is not for an encoding"),
        (vitempo.read(MODEL), {"space": space}, "`space` is for encodings"),
    ]:
        with pytest.raises(TypeError, match=named):
            vitempo.export(model, out, **options)
    with pytest.raises(TypeError, match="`weights` is for ONNX"):
        vitempo.export("mobilevit_xxs", tmp_path / "m.tflite", weights=False)
    with pytest.raises(FileNotFoundError):
        vitempo.export("mobilevit_xxs", tmp_path / "absent" / "m.onnx")
    assert list(tmp_path.iterdir()) == []
