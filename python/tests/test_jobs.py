"""Jobs of `vitempo.cluster` in this process, which need no Ray: parts, folders, files, commands."""

from __future__ import annotations

import json
import os
import shlex
import subprocess

import pytest
from conftest import MODELS, ROOT

import vitempo
from vitempo import cluster
from vitempo.cluster import _commands, _folders, _run, _store, _train, _tune

PROGRAM = os.environ.get("VITEMPO_PROGRAM")
SPACE = "isotropic-vit"
FEW = {"count": 1500, "part": 400, "top": 7, "address": "here"}


FEWEST = ["--min-repeats", "2", "--max-repeats", "2"]


def lengths(encodings):
    return [float(len(encoding)) for encoding in encodings]


def score(out, bundle="epyc-onnxruntime-f32-1t", **options):
    return cluster.score(SPACE, bundle, out, **{**FEW, **options})


def measured(folder, backend="null", precisions=("f32", "int8")):
    """A small dataset of an environment for each precision."""
    models = str(folder.parent / "models")
    sample = [PROGRAM, "sample", "--space", "mbconv", "--count", "4", "--out", models]
    subprocess.run(sample, check=True, capture_output=True)
    for precision in precisions:
        vitempo.profile(models, folder, backend=backend, precision=precision, options=FEWEST)
    return folder


def test_a_range_is_scored_as_forecasts_one_by_one(tmp_path, bundle):
    found = score(tmp_path, objective=lengths, ceilings=2.0, first=100)
    space = vitempo.Space(SPACE)
    encodings = [space.nth(number) for number in range(100, 1600)]
    ms = bundle.predict(encodings).ms
    within = [(e, len(e), t) for e, t in zip(encodings, ms.tolist()) if t <= 2.0]
    assert 0 < len(within) < 1500
    assert (found.candidates, found.within) == (1500, len(within))
    best = sorted(within, key=lambda row: (-row[1], row[2]))
    assert [c.encoding for c in found.top] == [row[0] for row in best[:7]]
    beaten = [
        any(o[1] >= r[1] and o[2] <= r[2] and (o[1] > r[1] or o[2] < r[2]) for o in within)
        for r in within
    ]
    front = {row[0] for row, is_beaten in zip(within, beaten) if not is_beaten}
    assert {c.encoding for c in found.front} == front
    assert found.front[0].latencies[0].ms == pytest.approx(best[0][2], rel=1e-9)


def test_parts_of_any_size_and_an_interrupted_job_give_the_same_bytes(tmp_path):
    whole = score(tmp_path / "whole", part=1500)
    parts = score(tmp_path / "parts")
    assert whole == parts
    expected = (tmp_path / "whole/result.json").read_bytes()
    done: list[int] = []

    def stop(finished, total):
        done.append(finished)
        if finished == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(tmp_path / "again", progress=stop)
    assert done == [0, 1, 2]
    score(tmp_path / "again", progress=lambda finished, total: done.append(finished))
    assert done == [0, 1, 2, 2, 3, 4], "what was done is not done again"
    assert (tmp_path / "again/result.json").read_bytes() == expected
    assert json.loads(expected)["candidates"] == 1500


def test_the_folder_of_another_job_or_driver_is_refused(tmp_path):
    score(tmp_path)
    with pytest.raises(vitempo.ClusterError, match="another job: options differ") as error:
        score(tmp_path, top=8)
    assert "another folder" in error.value.hint
    with pytest.raises(vitempo.ClusterError, match="bundles, parts differ"):
        score(tmp_path, bundle="epyc-rten-f32-1t", part=3)
    job = json.loads((tmp_path / "job.json").read_text())
    with _store.Store(tmp_path, job), pytest.raises(vitempo.ClusterError, match="another driver"):
        score(tmp_path)
    (tmp_path / "job.json").write_text("{")
    with pytest.raises(vitempo.ClusterError, match="job.json"):
        score(tmp_path)


def test_a_result_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    with _store.Store(tmp_path, {}) as store:
        store.put("a", b"1")
        monkeypatch.setattr(os, "fsync", full)
        part = _run.Part("b", (), 1.0)
        how = _run.Settings("here", "go-on")
        with pytest.raises(vitempo.ClusterError, match="part b, on node .*: No space left|part b"):
            _run.run(lambda shared: b"2", None, [part], store, how)
        assert store.has("a") and not store.has("b")
        assert sorted(os.listdir(tmp_path / "parts")) == ["a"]
        store.put("a", b"another")
        assert store.get("a") == b"1", "a part counts once"


def test_parts_that_fail_are_named(tmp_path):
    def third_fails(encodings):
        if vitempo.Space(SPACE).nth(900) in encodings:
            raise ArithmeticError("out of memory at the supernet")
        return lengths(encodings)

    with pytest.raises(vitempo.ClusterError, match=r"part 800-1200, on node .*out of memory"):
        score(tmp_path / "stop", objective=third_fails)
    assert sorted(os.listdir(tmp_path / "stop/parts")) == ["0-400", "400-800"]
    found = score(tmp_path / "on", objective=third_fails, on_error="go-on")
    assert [f.part for f in found.failed] == ["800-1200"] and found.candidates == 1100

    def repaired(encodings):
        return lengths(encodings)

    repaired.__qualname__ = third_fails.__qualname__
    again = score(tmp_path / "on", objective=repaired, on_error="go-on")
    assert again == score(tmp_path / "all", objective=lengths)
    nan = lambda encodings: [float("nan")] * len(encodings)  # noqa: E731
    with pytest.raises(vitempo.ClusterError, match=r"part 0-400, on node .* is NaN"):
        score(tmp_path / "nan", objective=nan)
    with pytest.raises(ValueError, match="expected 'stop' or 'go-on'"):
        score(tmp_path / "x", on_error="maybe")


def test_files_of_encodings_and_rows_that_cannot_be_read(tmp_path):
    space = vitempo.Space(SPACE)
    encodings = [space.nth(number) for number in range(500)]
    rows = [f"{e},{len(e)}" for e in encodings]
    good = tmp_path / "good.csv"
    good.write_text("\n".join(["encoding,score", *rows]) + "\n")
    found = score(tmp_path / "good", files=[good], part=120)
    assert found.candidates == 500
    assert found.top == score(tmp_path / "range", objective=lengths, count=500).top
    rows[130], rows[250] = "iv1-poison,3", f"{encodings[250]},inf"
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join(["encoding,score", *rows]) + "\n")
    with pytest.raises(vitempo.ClusterError, match=r"lines-122-241.*bad.csv, line 132: .*poison"):
        score(tmp_path / "stop", files=[bad], part=120)
    found = score(tmp_path / "on", files=[bad], part=120, on_error="go-on")
    assert [(r.line, r.reason[:5]) for r in found.rejected] == [(132, "`iv1-"), (252, "`inf`")]
    assert found.candidates == 498 and not found.failed
    for text, says in (("a,b\n1,2\n", "no column `encoding`"), ("encoding\n\xff", "utf-8")):
        bad.write_bytes(text.encode("latin-1"))
        with pytest.raises(vitempo.ClusterError, match=says):
            score(tmp_path / "none", files=[bad])


def test_one_population_is_a_search_and_several_are_their_front(tmp_path, bundle):
    options = {"ceilings": 60.0, "population": 20, "seed": 4}
    one = cluster.search(
        SPACE, bundle, tmp_path / "1", populations=1, candidates=200, address="here", **options
    )
    plain = vitempo.search(SPACE, bundle, candidates=200, **options)
    members = [(c.encoding, c.score, c.latencies) for c in plain.front]
    assert [(c.encoding, c.score, c.latencies) for c in one.front] == members
    assert one.candidates == plain.candidates and one.best == one.front[0]
    three = cluster.search(
        SPACE, bundle, tmp_path / "3", populations=3, candidates=500, address="here", **options
    )
    alone = [
        vitempo.search(SPACE, bundle, candidates=n, **{**options, "seed": seed})
        for seed, n in ((4, 167), (5, 167), (6, 166))
    ]
    members = {c.encoding for found in alone for c in found.front}
    assert three.candidates == 500 and {c.encoding for c in three.front} <= members
    assert three.best.score == max(found.best.score for found in alone)
    with pytest.raises(vitempo.NothingFits):
        cluster.search(SPACE, bundle, tmp_path / "0", ceilings=1e-3, candidates=40, address="here")


def test_folders_as_bytes(tmp_path):
    folder = tmp_path / "of"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(b"1")
    (folder / "sub/b").write_bytes(b"2" * 10_000)
    (folder / "lock").write_bytes(b"")
    packed = _folders.packed(folder)
    assert packed == _folders.packed(folder)
    _folders.unpack(packed, tmp_path / "again")
    assert _folders.packed(tmp_path / "again") == packed
    assert not (tmp_path / "again/lock").exists()
    sent = _folders.SentFolder.of(folder)
    assert sent.path() == sent.path() and (sent.path() / "sub/b").read_bytes() == b"2" * 10_000


def test_devices_adapt_as_they_do_one_by_one(tmp_path):
    measured = tmp_path / "measured"
    measured.mkdir()
    rows = "model,latency_ms\nmobilevit_xxs,{}\nedgenext_xx_small,{}\n"
    for name, first, second in (("phone", 17.1, 10.7), ("tablet", 34.0, 20.5)):
        (measured / f"{name}.csv").write_text(rows.format(first, second))
    sources = ["pixel4-tflite-cpu-f32"]
    found = cluster.adapt(measured, MODELS, tmp_path / "job", sources=sources, address="here")
    alone = vitempo.adapt(
        measured / "phone.csv", MODELS, out=tmp_path / "phone.vtb", sources=sources
    )
    assert sorted(found.devices) == ["phone", "tablet"] and not found.failed
    assert (tmp_path / "job/phone.vtb").read_bytes() == (tmp_path / "phone.vtb").read_bytes()
    assert (found.devices["phone"].mape, found.devices["phone"].measured) == (alone.mape, 2)
    (measured / "wrong.csv").write_text("model,latency_ms\nmobilevit_xxs,-1\n")
    with pytest.raises(vitempo.ClusterError, match="part device-wrong, on node .*wrong.csv"):
        cluster.adapt(measured, MODELS, tmp_path / "wrong", sources=sources, address="here")


@pytest.mark.skipif(not PROGRAM, reason="VITEMPO_PROGRAM names no program")
def test_environments_train_as_they_do_one_by_one(tmp_path):
    data = measured(tmp_path / "data")
    names = sorted(vitempo.Dataset(data).environments)
    found = cluster.train(data, tmp_path, method="lasso", address="here")
    assert sorted(found.bundles) == names and len(names) == 2
    cluster.train(data, tmp_path / "shares", method="lasso", shares=2, address="here")
    for name in names:
        out = tmp_path / "alone.vtb"
        vitempo.train(data, out, environment=name, method="lasso")
        assert out.read_bytes() == (tmp_path / f"{name}.vtb").read_bytes()
        assert out.read_bytes() == (tmp_path / f"shares/{name}.vtb").read_bytes()
    with pytest.raises(vitempo.ClusterError, match="no environment nowhere"):
        cluster.train(data, tmp_path / "x", environments=["nowhere"])


@pytest.mark.skipif(not PROGRAM, reason="VITEMPO_PROGRAM names no program")
def test_a_lake_is_read_where_it_is_and_must_not_grow(tmp_path):
    data, lake = measured(tmp_path / "data"), str(tmp_path / "lake")
    append = [PROGRAM, "dataset", "append", str(data), "--to", lake]
    subprocess.run(append, check=True, capture_output=True)
    there = _folders.LakeAtAddress.of(lake)
    names = sorted(vitempo.Dataset(data).environments)
    assert (there.path(), list(there.environments)) == (lake, names)
    there.check()
    options = ("--method", "lasso")
    of = [_train.Training(of, options) for of in (there, _folders.SentFolder.of(data))]
    # The bundle says which libraries and rows it is of, not where these were.
    assert of[0].bundle(names[0])[1] == of[1].bundle(names[0])[1]
    more = measured(tmp_path / "more", precisions=("f16",))
    subprocess.run([*append[:3], str(more), *append[4:]], check=True, capture_output=True)
    with pytest.raises(vitempo.ClusterError, match="grew while"):
        there.check()


@pytest.mark.skipif(not PROGRAM, reason="VITEMPO_PROGRAM names no program")
def test_a_sample_of_the_rows_is_trained_on_as_the_program_does(tmp_path):
    data = measured(tmp_path / "data", precisions=("f32",))
    [name] = vitempo.Dataset(data).environments
    found = cluster.train(data, tmp_path / "job", method="lasso", max_rows=100_000, address="here")
    assert found.bundles[name].digest
    with pytest.raises(vitempo.ClusterError, match=r"the smallest .* \(--max-rows\)"):
        cluster.train(data, tmp_path / "few", method="lasso", max_rows=1, address="here")


@pytest.mark.skipif(not PROGRAM, reason="VITEMPO_PROGRAM names no program")
def test_the_best_of_some_settings_is_trained_as_the_program_does(tmp_path):
    data = measured(tmp_path / "data", "rten", ["f32"])
    [name] = vitempo.Dataset(data).environments
    out = tmp_path / "job"
    found = cluster.tune(data, out, environments=[name], trials=3, address="here")
    tried = found.trials[name]
    usual = next(trial for trial in tried if not trial.boosting)
    assert len(tried) == 3 and tried[0].mape == min(trial.mape for trial in tried) <= usual.mape
    assert len({trial.mape for trial in tried}) == 3, "each setting has an effect"
    best = ["--boosting", tried[0].boosting] if tried[0].boosting else []
    vitempo.train(data, tmp_path / "alone.vtb", environment=name, options=best)
    assert (tmp_path / "alone.vtb").read_bytes() == (out / f"{name}.vtb").read_bytes()
    assert len((out / "trials.csv").read_text().splitlines()) == 4
    again = cluster.tune(data, out, environments=[name], trials=3, address="here")
    assert again.trials == found.trials
    with pytest.raises(vitempo.ClusterError, match="settings differ"):
        cluster.tune(data, out, environments=[name], trials=4, address="here")
    with pytest.raises(ValueError, match="trials 0"):
        cluster.tune(data, tmp_path / "none", trials=0, address="here")
    with pytest.raises(vitempo.ProgramError, match="only gbdt boosts"):
        more = ["--boosting", "trees=9"]
        vitempo.train(data, tmp_path / "x.vtb", environment=name, method="lasso", options=more)


def test_settings_are_drawn_alike_everywhere():
    settings = _tune.drawn(5, 1)
    assert settings[0] == "" and len(set(settings)) == 5
    assert settings == _tune.drawn(9, 1)[:5] != _tune.drawn(5, 2)
    expected = "trees=400,leaves=31,learning_rate=0.0125,rows_in_leaf=5,l2=0,columns=1"
    assert settings[1] == expected


@pytest.mark.skipif(not PROGRAM, reason="VITEMPO_PROGRAM names no program")
def test_a_campaign_measures_each_model_once_on_each_device(tmp_path):
    models = [MODELS / f"{name}.onnx" for name in ("mobilevit_xxs", "edgenext_xx_small")]
    devices = [
        cluster.Device("near", backend="null"),
        cluster.Device(
            "far", backend="null", remote=f"{PROGRAM} agent --folder {tmp_path / 'agent'}"
        ),
        cluster.Device("lacking", backend="no-such-engine"),
    ]
    options = {"batch": 1, "options": FEWEST, "address": "here"}
    with pytest.raises(vitempo.ClusterError, match="lacking.*no-such-engine"):
        cluster.campaign(models, devices[2:], tmp_path / "stop", **options)
    found = cluster.campaign(models, devices, tmp_path / "on", on_error="go-on", **options)
    assert [f.part for f in found.failed] == ["lacking-batch-0", "lacking-batch-1"]
    runs = found.dataset.table("model_measurements", ["model", "sitting"])
    measured = sorted(zip(runs["model"], runs["sitting"]))
    assert [m for m, _ in measured] == ["edgenext_xx_small"] * 2 + ["mobilevit_xxs"] * 2
    assert {s for _, s in measured} == {f"campaign-{d}-{n}" for d in ("near", "far") for n in "01"}
    assert found.dataset.validate()
    again = cluster.campaign(models, devices, tmp_path / "on", on_error="go-on", **options)
    assert again.dataset.inspect()["runs"] == 4, "what was measured is not measured again"


def test_the_commands_of_the_guide_can_be_given():
    lines = (ROOT / "docs/scale.md").read_text().splitlines()
    start = "    python -m vitempo.cluster "
    commands = [line[len(start) :] for line in lines if line.startswith(start)]
    assert len(commands) >= 7
    for command in commands:
        assert callable(_commands._parser().parse_args(shlex.split(command)).run)


def test_commands(tmp_path, capsys):
    words = ["score", "--space", SPACE, "--bundle", "epyc-onnxruntime-f32-1t"]
    words += ["--count", "300", "--part", "100", "--address", "here", "--out", str(tmp_path / "a")]
    assert _commands.main([*words, "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["candidates"] == 300 and "3 of 3 parts" in shown.err
    assert (tmp_path / "a/front.csv").read_text().startswith("encoding,score,epyc-onnxruntime")
    assert _commands.main([*words, "--max-latency", "1us"]) == 1
    assert "hint: " in capsys.readouterr().err
    assert _commands.main(["score", "--bundle", "nothing", "--out", str(tmp_path / "b")]) == 1
    words = ["search", "--space", SPACE, "--bundle", "epyc-onnxruntime-f32-1t"]
    words += ["--candidates", "80", "--population", "20", "--populations", "2", "--quiet"]
    assert _commands.main([*words, "--address", "here", "--out", str(tmp_path / "c")]) == 0
    assert "80 architectures" in capsys.readouterr().out
    assert _commands.main([*words, "--objective", "no:such", "--out", str(tmp_path / "d")]) == 1
    assert "objective no:such" in capsys.readouterr().err
    (tmp_path / "devices.json").write_text('{"phone": {"backend": 3}}')
    words = ["campaign", str(MODELS), "--devices", str(tmp_path / "devices.json")]
    assert _commands.main([*words, "--out", str(tmp_path / "e")]) == 1
    assert "device phone: field `backend` is 3" in capsys.readouterr().err
