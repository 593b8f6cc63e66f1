"""Searches: with stand-ins, with functions, and ended early."""

from __future__ import annotations

import pytest

import vitempo

FAST = {"candidates": 600, "population": 60}


def test_a_search_stays_within_its_ceiling(bundle, space):
    found = vitempo.search("hybrid-vit", bundle, ceilings=20.0, **FAST)
    assert found.candidates == 600 and found.best is found.front[0]
    assert all(c.latencies[0].ms <= 20.0 for c in found.front)
    scores = [c.score for c in found.front]
    assert scores == sorted(scores, reverse=True)
    best = found.best
    assert bundle.predict(best.encoding).ms == pytest.approx(best.latencies[0].ms, rel=1e-9)
    assert found == vitempo.search(space, [bundle], ceilings=[20.0], **FAST)


def test_a_search_over_two_bundles_by_the_upper_end(bundle):
    names = [bundle.name, "epyc-rten-f32-1t"]
    found = vitempo.search("hybrid-vit", names, "parameters", ceilings=[40, 60], upper=True, **FAST)
    for candidate in found.front:
        first, second = candidate.latencies
        assert first.upper <= 40 and second.upper <= 60


def test_memory_has_a_ceiling(bundle):
    found = vitempo.search("hybrid-vit", bundle, memory_ceilings=80_000_000, **FAST)
    for candidate in found.front:
        assert candidate.memories == [bundle.predict(candidate.encoding).memory]
        assert candidate.memories[0].peak <= 80_000_000
    with pytest.raises(vitempo.SearchError, match="has no forecast"):
        vitempo.search("hybrid-vit", "epyc-torch-f32-1t", memory_ceilings=[10**9], **FAST)


def test_a_function_scores_architectures(bundle):
    asked: list[str] = []

    def shortest(encodings: list[str]) -> list[float]:
        asked.extend(encodings)
        return [-float(len(encoding)) for encoding in encodings]

    reported: list[int] = []
    found = vitempo.search(
        "hybrid-vit", bundle, shortest, progress=lambda done, best: reported.append(done), **FAST
    )
    assert len(asked) == len(set(asked)) == 600 and reported[-1] == 600
    assert found.best.score == max(-len(encoding) for encoding in asked)


def test_what_a_function_raises_is_raised(bundle):
    def fails(encodings: list[str]) -> list[float]:
        raise ArithmeticError(f"{len(encodings)} at once")

    with pytest.raises(ArithmeticError, match="60 at once"):
        vitempo.search("hybrid-vit", bundle, fails, **FAST)
    with pytest.raises(ValueError, match="1 scores were returned for 60 encodings"):
        vitempo.search("hybrid-vit", bundle, lambda encodings: [1.0], **FAST)
    with pytest.raises(ValueError, match="is NaN"):
        vitempo.search("hybrid-vit", bundle, lambda e: [float("nan")] * len(e), **FAST)

    def enough(done: int, best: object) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        vitempo.search("hybrid-vit", bundle, progress=enough, **FAST)


def test_numbers_of_any_type_are_ceilings(bundle):
    np = pytest.importorskip("numpy")
    found = vitempo.search("hybrid-vit", bundle, ceilings=np.float32(20), **FAST)
    assert found == vitempo.search("hybrid-vit", bundle, ceilings=20, **FAST)


def test_searches_that_cannot_be_made(bundle):
    for options, named in [
        ({"ceilings": float("nan")}, "`ceilings` is nan, expected a number of at least 0, ms"),
        ({"ceilings": ["20"]}, "`ceilings` is '20'"),
        ({"memory_ceilings": 0.5}, "`memory_ceilings` is 0.5"),
        ({"candidates": -1}, "`candidates` is -1"),
        ({"seed": -1}, "`seed` is -1"),
    ]:
        with pytest.raises(vitempo.SearchError, match=named):
            vitempo.search("hybrid-vit", bundle, **options)
    with pytest.raises(vitempo.NothingFits, match="within the ceiling") as caught:
        vitempo.search("hybrid-vit", bundle, ceilings=0.001, **FAST)
    assert caught.value.hint
    with pytest.raises(vitempo.SearchError, match="1 bundles, but 2 ceilings"):
        vitempo.search("hybrid-vit", bundle, ceilings=[1.0, 2.0], **FAST)
    with pytest.raises(ValueError, match="objective `accuracy`"):
        vitempo.search("hybrid-vit", bundle, "accuracy", **FAST)
    with pytest.raises(vitempo.SearchError, match="population"):
        vitempo.search("hybrid-vit", bundle, population=1)
