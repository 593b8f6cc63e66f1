"""What the tests share. The package is the installed one."""

from __future__ import annotations

from pathlib import Path

import pytest

import vitempo

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "models"


@pytest.fixture(scope="session")
def model() -> Path:
    return MODELS / "vit_tiny_patch16_224.onnx"


@pytest.fixture(scope="session")
def bundle() -> vitempo.Bundle:
    return vitempo.Bundle.load("epyc-onnxruntime-f32-1t")


@pytest.fixture(scope="session")
def phone() -> vitempo.Bundle:
    return vitempo.Bundle.load("pixel4-tflite-cpu-f32")


@pytest.fixture(scope="session")
def space() -> vitempo.Space:
    return vitempo.Space("hybrid-vit")


@pytest.fixture(scope="session")
def encodings(space: vitempo.Space) -> list[str]:
    return space.sample(1500, seed=7)
