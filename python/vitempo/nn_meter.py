"""nn-Meter's interface with the forecasts of vitempo: change the import, keep the program.

    from vitempo.nn_meter import load_latency_predictor

    predictor = load_latency_predictor("cortexA76cpu_tflite21")
    ms = predictor.predict("model.onnx", model_type="onnx")

The names of nn-Meter's devices stand for the bundles of the same processors; every bundle of
vitempo can be named as well. Latencies are in ms, as nn-Meter's are.
"""

from __future__ import annotations

import logging
from typing import Any, Optional

from ._open import predict_one
from ._vitempo import Bundle, Forecast, bundles

# nn-Meter measured a Pixel 4 and a Xiaomi Mi 9 (Adreno 640, Cortex-A76).
DEVICES = {
    "cortexA76cpu_tflite21": "pixel4-tflite-cpu-f32",
    "adreno640gpu_tflite21": "pixel4-tflite-gpu-f32",
}

# Devices of nn-Meter of which vitempo has no bundle.
WITHOUT_BUNDLE = ("adreno630gpu_tflite21", "myriadvpu_openvino2019r2")

_log = logging.getLogger("vitempo")


def list_latency_predictors() -> list[dict[str, Any]]:
    """The predictors that `load_latency_predictor` takes: name and version."""
    return [{"name": name, "version": 1.0} for name in [*DEVICES, *bundles()]]


def load_latency_predictor(
    predictor_name: str, predictor_version: Optional[float] = None
) -> nnMeterPredictor:
    """The predictor of a device of nn-Meter, or of a bundle of vitempo.

    Raises:
        NotImplementedError: There is no such predictor (as nn-Meter's own function raises).
    """
    if predictor_version not in (None, 1.0):
        raise NotImplementedError(f"{predictor_name} has the version 1.0, not {predictor_version}")
    if predictor_name in WITHOUT_BUNDLE:
        raise NotImplementedError(
            f"vitempo has no bundle of {predictor_name}; `vitempo.bundles()` lists what it has"
        )
    name = DEVICES.get(predictor_name, predictor_name)
    try:
        return nnMeterPredictor(Bundle.load(name))
    except LookupError as error:
        raise NotImplementedError(str(error)) from error


class nnMeterPredictor:
    """Forecasts latencies of models on one device."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle

    def predict(
        self,
        model: Any,
        model_type: str,
        input_shape: tuple[int, ...] = (1, 3, 224, 224),
        apply_nni: bool = False,
    ) -> float:
        """The latency of a model, ms.

        Args:
            model: The path of an ONNX file, an `onnx.ModelProto`, or a `torch.nn.Module`.
            model_type: `onnx` or `torch`.
            input_shape: Shape of the input of a torch module.
            apply_nni: Without effect: modules are exported by torch.

        Raises:
            NotImplementedError: Another type of model.
        """
        return self.forecast(model, model_type, input_shape).ms

    def forecast(
        self, model: Any, model_type: str, input_shape: tuple[int, ...] = (1, 3, 224, 224)
    ) -> Forecast:
        """The same with its interval and operators."""
        if model_type not in ("onnx", "torch"):
            raise NotImplementedError(
                f"model_type {model_type!r}: vitempo reads `onnx` and `torch`; convert the model"
            )
        inputs = tuple(input_shape) if model_type == "torch" else None
        forecast = predict_one(self.bundle, model, inputs=inputs)
        _log.info("Predict latency: %s ms", forecast.ms)
        return forecast
