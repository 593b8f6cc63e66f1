#!/usr/bin/env python3
"""Runs splits of models on engines, and writes what was measured beside the forecasts.

    scripts/split_live.py MODEL.onnx ... --device rten@0 --server onnxruntime@1 \\
        --device-bundle epyc-rten-f32-1t --server-bundle epyc-onnxruntime-f32-1t \\
        --out datasets/split/record.json > split.md

For each model and bandwidth it runs the best split, and the best one that cuts the model: the input
stays on the device, which has too little memory for the whole model (--memory). Then it measures
the break points of each model's list over bandwidth. A run that fails is kept with its reason. The
record has every sample (`plan split --record`); stdout has tables in Markdown. Nothing else should run on the
machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

LATENCY, PERIOD = "latency", "period"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--program", default="vitempo")
    parser.add_argument("--device", default="rten@0")
    parser.add_argument("--server", default="onnxruntime@1")
    parser.add_argument("--device-bundle", default="epyc-rten-f32-1t")
    parser.add_argument("--server-bundle", default="epyc-onnxruntime-f32-1t")
    parser.add_argument("--bandwidth", nargs="+", default=["1Mbit/s", "5Mbit/s", "20Mbit/s", "100Mbit/s"])
    parser.add_argument("--hand-over", default="0us", help="of a tensor, besides the link")
    parser.add_argument("--features", default="f32")
    parser.add_argument("--memory", type=float, default=0.8, help="share of what the device's engine takes for all")
    parser.add_argument("--frames", default="20")
    parser.add_argument("--pairs", default="10", help="pairs of frames for each step of a break point")
    parser.add_argument("--answer-within", default="60s")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("split-record.json"))
    parser.add_argument("--tables-of", type=pathlib.Path, help="print the tables of a record, run nothing")
    return parser.parse_args()


def call(args, words):
    """JSON of a command, or the reason why there is none."""
    process = subprocess.run([args.program, *words, "--format", "json"], capture_output=True, text=True)
    if process.returncode != 0:
        return None, process.stderr.strip()
    return json.loads(process.stdout), None


def plan(args, model, bandwidth, rest):
    return ["plan", "split", model, "--device-bundle", args.device_bundle, "--server-bundle",
            args.server_bundle, "--bandwidth", bandwidth, "--hand-over", args.hand_over, "--features",
            args.features, *rest]


def live(args, frames):
    return ["--live", f"device={args.device}", "--live", f"server={args.server}", "--frames", frames,
            "--answer-within", args.answer_within]


def inputs(args, model):
    """Names of the model's inputs: the tensors that the server reads when it runs everything."""
    _, reason = call(args, plan(args, model, "1Gbit/s", ["--confine", "/no such tensor/"]))
    return (reason or "").split("its inputs are ")[-1].strip().split(", ")


def cut(args, model):
    """Bounds with which the best split cuts the model."""
    confined = [word for name in inputs(args, model) for word in ("--confine", name)]
    # At this bandwidth nothing is sent.
    planned, _ = call(args, plan(args, model, "1kbit/s", confined))
    whole = sum(stage["memory_bytes"] for stage in planned[0]["stages"])
    return [*confined, "--max-memory", f"{round(args.memory * whole)}B"]


def recorded(args, words):
    """The record of a run, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "record.json"
        _, reason = call(args, [*words, "--record", str(path)])
        return json.loads(path.read_text()) if reason is None else {"failed": reason}


def measure(args):
    runs = []
    for model in args.models:
        name = pathlib.Path(model).stem
        bounds = cut(args, model)
        for bandwidth in args.bandwidth:
            for kind, rest in (("best", []), ("cut", bounds)):
                print(f"{name}, {bandwidth}, {kind}", file=sys.stderr)
                words = [*plan(args, model, bandwidth, rest), *live(args, args.frames)]
                runs.append({"model": name, "bandwidth": bandwidth, "kind": kind, **recorded(args, words)})
                keep(args, runs)
        print(f"{name}, break points", file=sys.stderr)
        words = [*plan(args, model, "100Mbit/s", ["--over-bandwidth"]), *live(args, args.pairs)]
        runs.append({"model": name, "kind": "break points", **recorded(args, words)})
        keep(args, runs)
    return runs


def keep(args, runs):
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(runs, indent=1) + "\n")


def ms(ns):
    return f"{ns / 1e6:.1f} ms"


def percent(share):
    return f"{100 * share:+.1f} %"


def median(samples):
    return statistics.median(samples) if samples else None


def compared(run):
    """What is compared, the forecast, and the median measured; ns."""
    latency = median([frame["latency_ns"] for frame in run["alone"]])
    rows = [(LATENCY, run["forecast"]["latency_ns"]["point"], latency),
            (PERIOD, run["forecast"]["period_ns"]["point"], median(run["periods_ns"]))]
    return [row for row in rows if row[2] is not None and row[1] > 0]


def mean_off(offs):
    return f"{100 * statistics.mean(map(abs, offs)):.1f} %" if offs else "-"


def tables(runs):
    print("| model | link | split | sent | latency: forecast | measured | off | period: forecast | measured | off |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    offs = {LATENCY: [], PERIOD: []}
    sent = {LATENCY: [], PERIOD: []}
    for entry in runs:
        if entry["kind"] == "break points":
            continue
        head = f"| {entry['model']} | {entry['bandwidth']} | {entry['kind']} |"
        if "failed" in entry:
            print(f"{head} {entry['failed'].splitlines()[0]} | | | | | | |")
            continue
        run, cells = entry["run"], []
        for what, forecast, measured in compared(run):
            off = measured / forecast - 1
            offs[what].append(off)
            if run["tensor_bytes"][0]:
                sent[what].append(off)
            cells += [ms(forecast), ms(measured), percent(off)]
        print(f"{head} {run['tensor_bytes'][0]} B | {' | '.join(cells)} |")
    print()
    for what in (LATENCY, PERIOD):
        worst = max(map(abs, offs[what]), default=0)
        print(f"{what}: mean error {mean_off(offs[what])} of {len(offs[what])} runs (at most {100 * worst:.1f} %); "
              f"{mean_off(sent[what])} of the {len(sent[what])} that use the link")
    print()
    print("| model | predicted | measured | off |")
    print("|---|---|---|---|")
    found = []
    for entry in runs:
        if entry["kind"] != "break points":
            continue
        if "failed" in entry:
            print(f"| {entry['model']} | {entry['failed'].splitlines()[0]} | | |")
            continue
        for point in entry.get("break_points", []):
            predicted = point["predicted_bytes_per_s"]
            measured = point["measured"].get("Ok")
            if measured is None:
                print(f"| {entry['model']} | {predicted * 8e-6:.1f} Mbit/s | {point['measured']['Err']} | |")
                continue
            off = measured / predicted - 1
            found.append(off)
            print(f"| {entry['model']} | {predicted * 8e-6:.1f} Mbit/s | {measured * 8e-6:.1f} Mbit/s | {percent(off)} |")
    print()
    print(f"break points: mean error {mean_off(found)} of {len(found)}")


def main():
    args = arguments()
    tables(json.loads(args.tables_of.read_text()) if args.tables_of else measure(args))


if __name__ == "__main__":
    main()
