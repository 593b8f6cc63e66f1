"""Search spaces: sampling, encodings, mutation."""

from __future__ import annotations

import numpy as np
import pytest

import vitempo


def test_spaces_that_ship():
    assert vitempo.Space.names() == ["hybrid-vit", "isotropic-vit", "mbconv"]
    space = vitempo.Space("hybrid-vit")
    assert (space.name, space.family) == ("hybrid-vit", "hybrid-vit")
    assert space.size > 10**15 and repr(space) == "Space(hybrid-vit)"


def test_the_same_seed_gives_the_same_samples(space):
    samples = space.sample(20, seed=4)
    assert len(set(samples)) == 20 and samples == space.sample(20, seed=4)
    assert samples[:5] == space.sample(5, seed=4) != space.sample(5, seed=5)
    assert all(sample in space for sample in samples) and "hv1-x" not in space


@pytest.mark.parametrize("name", vitempo.Space.names())
def test_architectures_are_decoded_and_encoded(name):
    space = vitempo.Space(name)
    for encoding in space.sample(50, seed=1):
        architecture = space.decode(encoding)
        assert architecture["family"] == space.family
        assert space.encode(architecture) == encoding
    with pytest.raises(vitempo.InvalidEncoding):
        space.encode({"family": space.family})
    with pytest.raises(TypeError):
        space.encode({"family": object()})


def test_mutations_and_crossings_stay_in_the_space(space):
    one, other = space.sample(2)
    mutants = {space.mutate(one, seed=seed) for seed in range(30)}
    assert len(mutants) > 10 and one not in mutants
    assert space.mutate(one, seed=3) == space.mutate(one, seed=3)
    children = {space.cross(one, other, seed=seed) for seed in range(30)}
    assert all(child in space for child in mutants | children)


def test_an_architecture_as_onnx_is_read_back(space):
    encoding = space.sample(1)[0]
    read = vitempo.read(space.to_onnx(encoding))
    assert read.architecture == vitempo.read(encoding).architecture


def test_numbers_and_values_that_are_refused(space):
    for call in (
        lambda: space.sample(-1),
        lambda: space.sample(1, seed=-1),
        lambda: space.mutate(space.nth(0), seed=2**64),
        lambda: space.cross(space.nth(0), space.nth(1), seed=-1),
    ):
        with pytest.raises(vitempo.InvalidArgument, match="`(count|seed)` is -?[0-9]+, expected"):
            call()
    with pytest.raises(IndexError, match="none is at -1"):
        space.nth(-1)
    assert 5 not in space and None not in space
    one = space.decode(space.nth(3))
    numbers = {k: np.int64(v) if isinstance(v, int) else v for k, v in one.items()}
    assert space.encode(numbers) == space.nth(3)
    with pytest.raises(TypeError, match="object is not a value of an architecture"):
        space.encode({"family": object()})
