#!/usr/bin/env python3
"""Makes the bundles of bundles/adapted/ from published latencies.

scripts/adapted_bundles.py VITEMPO PUBLISHED CNNS OUT: PUBLISHED has the tables that docs/datasets.md
lists (aihub_*, cnn_phones_e2e_us.csv), CNNS the ONNX files of the phones' networks.
"""
import csv
import pathlib
import statistics
import subprocess
import sys
import tempfile

AI_HUB = "Qualcomm AI Hub Models, https://github.com/quic/ai-hub-models, BSD-3-Clause"
PHONES = "mobile-ml-benchmark (Li, Paolieri, Golubchik), https://github.com/qed-usc/mobile-ml-benchmark, MIT"
FEWEST = 30


def name(*parts):
    return "-".join("".join(c if c.isalnum() else "-" for c in part.lower()).strip("-") for part in parts).replace("--", "-")


def snapdragons(folder):
    """Float models by device and runtime, of the newest snapshot: latencies in ms by model."""
    settings = {}
    for row in csv.DictReader(open(folder / "aihub_latency.csv")):
        if row["snapshot"].startswith("newest") and row["precision"] == "float" and not row["flag"]:
            key = (row["device"], row["runtime"], row["primary_compute_unit"].lower())
            settings.setdefault(key, {}).setdefault(row["model"], []).append(float(row["inference_time_ms"]))
    for (device, runtime, unit), models in sorted(settings.items()):
        if len(models) >= FEWEST:
            yield device, runtime, unit, "f16", {m: statistics.median(ms) for m, ms in models.items()}


def phones(folder):
    rows = list(csv.DictReader(open(folder / "cnn_phones_e2e_us.csv")))
    for phone in ("pixel4", "mi8se", "iphonexs"):
        for cores, unit in (("1large", "cpu"), ("gpu", "gpu")):
            column = f"{phone}|{cores}|float|mean"
            yield phone, "tflite", unit, "f32", {row["model"]: float(row[column]) / 1e3 for row in rows if row[column]}


def adapt(vitempo, setting, models, sources, source, out):
    device, runtime, unit, precision, latencies = setting
    here = {path.stem for path in models.glob("*.onnx")}
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as measured:
        writer = csv.writer(measured)
        writer.writerow(["model", "latency_ms"])
        writer.writerows((m, ms) for m, ms in sorted(latencies.items()) if m in here)
        measured.flush()
        bundle = out / f"{name(device, runtime, unit)}-{precision}.vtb"
        command = [vitempo, "adapt", "--measured", measured.name, "--models", models, "--framework", runtime, "--device", unit, "--precision", precision,
                   "--name", device, "--source", source, "--out", bundle, *(["--from", *sources] if sources else [])]
        output = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
    print(bundle.name, *(line for line in output.splitlines() if line.startswith("Each model")), flush=True)


def main(vitempo, published, cnns, out):
    published, cnns, out = map(pathlib.Path, (published, cnns, out))
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        others = pathlib.Path(folder) / "others"
        subprocess.run([vitempo, "dataset", "import", "ai-hub", published, "--out", others], check=True, stdout=subprocess.DEVNULL)
        for setting in snapdragons(published):
            adapt(vitempo, setting, published / "aihub_graphs", [others], AI_HUB, out)
    for setting in phones(published):
        adapt(vitempo, setting, cnns, ["epyc-litert-f32-1t"] if setting[2] == "cpu" else [], PHONES, out)


main(*sys.argv[1:])
