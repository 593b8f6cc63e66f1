#!/usr/bin/env python3
"""Refines a bundle for the models that it forecasts worst, and prints errors before and after.

    scripts/refine_worst.py --bundle rten.vtb --data data-real/ --models zoo/ --count 10 \\
        --cores 1 --within 60s --out datasets/refining/rten.json > rten.md

The dataset has the models end to end, in the bundle's environment; the bundle was trained without
them. Each model is refined from the bundle as it is, not from the one before. Nothing else should
run on the machine. Stdout is a table in Markdown.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="vitempo")
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--data", required=True, help="dataset with the models' latencies")
    parser.add_argument("--models", required=True, type=pathlib.Path, help="folder of ONNX files")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--cores", required=True)
    parser.add_argument("--within", default="60s")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the refined bundles")
    return parser.parse_args()


def call(args, *words):
    process = subprocess.run([args.program, *words, "--format", "json"], capture_output=True, text=True)
    if process.returncode != 0:
        raise ValueError(f"{' '.join(words)}: {process.stderr.strip()}")
    return json.loads(process.stdout)


def worst(args):
    models = call(args, "evaluate", args.bundle, "--on", args.data)["models"]
    files = {file.stem for file in args.models.rglob("*.onnx")}
    models = [model for model in models if model["name"] in files]
    return sorted(models, key=lambda model: -model["ape"])[: args.count]


def refined(args, model):
    (file,) = args.models.rglob(f"{model['name']}.onnx")
    with tempfile.TemporaryDirectory() as folder:
        out = str((args.keep or pathlib.Path(folder)) / f"{model['name']}.vtb")
        result = call(args, "refine", str(file), "--bundle", args.bundle, "--within", args.within,
                      "--cores", args.cores, "--out", out)
    row = {"model": model["name"], "measured_ns": model["actual_ns"]}
    for when in ("before", "after"):
        latency = result[when]
        row[when] = {
            "ns": latency["point"],
            "off": latency["point"] / model["actual_ns"] - 1,
            "width": (latency["upper"] - latency["lower"]) / latency["point"],
            "holds": latency["lower"] <= model["actual_ns"] <= latency["upper"],
        }
    keys = ("corrected_kernels", "networks", "seconds", "covered", "out_of_reach", "failed")
    return {**row, **{key: result[key] for key in keys}}


def table(rows):
    print("| model | measured | off before | off after | width before | width after | networks | measuring |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        before, after = row["before"], row["after"]
        print(f"| {row['model']} | {row['measured_ns'] / 1e6:.1f} ms | {before['off']:+.1%} | {after['off']:+.1%} "
              f"| {before['width']:.1%} | {after['width']:.1%} | {row['networks']} | {row['seconds']} s |")

    def mean(when, what):
        return statistics.mean(abs(row[when][what]) for row in rows)
    held = [sum(row[when]["holds"] for row in rows) for when in ("before", "after")]
    print(f"| mean | | {mean('before', 'off'):.1%} | {mean('after', 'off'):.1%} | {mean('before', 'width'):.1%} "
          f"| {mean('after', 'width'):.1%} | | {statistics.mean(row['seconds'] for row in rows):.0f} s |")
    print(f"\nThe interval holds {held[0]} of {len(rows)} before and {held[1]} after.")


def main():
    args = arguments()
    rows = []
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    for model in worst(args):
        print(model["name"], file=sys.stderr)
        try:
            rows.append(refined(args, model))
        except ValueError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(rows, indent=1) + "\n")
    table(rows)


if __name__ == "__main__":
    main()
