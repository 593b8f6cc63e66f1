#!/usr/bin/env python3
"""Fills the accuracy tables of README.md and docs/accuracy.md from docs/accuracy/tables.json.

    scripts/accuracy_tables.py SITE

first takes that file, and the figure beside it, from the folder that `vitempo report` wrote. A table
is found by its heading, and all of its rows are replaced; the text around tables is not touched. With
--check nothing is written, and the exit code is 1 where a table differs from the file.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs/accuracy"
NAMES = ["accuracy", "accuracy-sizes"]


def keep(site):
    """Takes the tables and the figure of errors from a report."""
    tables = [t for t in json.loads((site / "tables.json").read_text())["tables"] if t["name"] in NAMES]
    text = json.dumps({"tables": tables}, indent=2, ensure_ascii=False)
    (KEPT / "tables.json").write_text(text + "\n")
    (KEPT / "errors.svg").write_text((site / "figures/accuracy.svg").read_text())


if sys.argv[1:] and "--check" not in sys.argv:
    keep(pathlib.Path(sys.argv[1]))
TABLES = {t["name"]: t["rows"] for t in json.loads((KEPT / "tables.json").read_text())["tables"]}
GROUPS = ["synthetic", "real ViT", "real CNN"]
METHODS = ["lasso", "random-forest", "gbdt"]
STUDY = {"synthetic": "4.1 %", "real ViT": "6.1 %", "real CNN": ""}


def percent(value):
    return "" if value is None else f"{value:.1f} %"


def environment(row):
    return row["Environment"].replace(" (epyc)", "")


def rows_of(environment_name, group, method=None):
    """Rows of one environment and group, trained on all that there is."""
    for row in TABLES["accuracy"]:
        if (environment(row), row["Models"]) == (environment_name, group) and method in (None, row["Method"]):
            yield row


def environments():
    return sorted({environment(row) for row in TABLES["accuracy"]}, key=lambda name: name.replace("f32 2t", "~"))


def readme():
    old = (ROOT / "README.md").read_text()
    bundles = dict(re.findall(r"^\| ([^|]+) \| .*\| (`epyc-[^|]*`) \|$", old, re.M))
    for name in environments():
        cells = [next(rows_of(name, group, "gbdt")) for group in GROUPS]
        yield [name, *(f"{percent(c['MAPE'])} ({percent(c['Noise floor'])})" for c in cells), bundles[name]]


def end_to_end():
    for group in GROUPS:
        for name in environments():
            by_method = {row["Method"]: row for row in rows_of(name, group)}
            row = by_method["gbdt"]
            yield [name, group, row["Count"], *(percent(by_method.get(m, {}).get("MAPE")) for m in METHODS), percent(row["Within 5 %"]), percent(row["Within 10 %"]),
                   percent(row["Repeats within 10 %"]), percent(row["90th percentile"]), percent(row["Noise floor"]), STUDY[group]]


def sizes():
    for row in sorted(TABLES["accuracy-sizes"], key=lambda row: GROUPS.index(row["Models"])):
        if row["Models"] != "real CNN" and any(row[m] is not None for m in METHODS):
            methods = ("-" if row[m] is None else percent(row[m]) for m in METHODS)
            yield [environment(row), row["Models"], row["Trained on"], row["Single operators too"], *methods, percent(row["Noise floor"])]


def intervals():
    for name in environments():
        for group in GROUPS:
            row = next(rows_of(name, group, "gbdt"))
            yield [name, group, *(percent(row[c]) for c in ("Inside it", "Its width", "Inside the plain one", "Plain width"))]


def fill(path, header, rows):
    """Replaces the rows of the table of `path` that begins with `header`; or says whether they differ."""
    lines = path.read_text().split("\n")
    first = lines.index(header) + 2
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith("|"))
    expected = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    if "--check" in sys.argv:
        if lines[first:last] != expected:
            sys.exit(f"{path}, line {first}: differs from docs/accuracy/tables.json; run scripts/accuracy_tables.py")
        return
    lines[first:last] = expected
    path.write_text("\n".join(lines))


def main():
    accuracy = ROOT / "docs/accuracy.md"
    fill(ROOT / "README.md", "| environment | synthetic | real ViTs | real CNNs | bundle |", list(readme()))
    fill(accuracy, "| environment | models | count | Lasso | random forest | GBDT | within 5 % | within 10 % | repeats within 10 % | 90th percentile | noise floor | study, best |", list(end_to_end()))
    fill(accuracy, "| environment | models | trained on | single operators too | Lasso | random forest | GBDT | noise floor |", list(sizes()))
    fill(accuracy, "| environment | models | inside, scaled | width | inside, plain | width |", list(intervals()))


main()
