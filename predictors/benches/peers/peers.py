"""Python libraries that evaluate LightGBM's trees, timed in turns with the bench that starts this.

Arguments: LightGBM's model text, rows as little-endian f64, features per row, a folder to build in.
Prints the names of what is installed and can be set up on one line; lines before it that begin with
`#` say why another library is left out. Then reads lines `NAME ROWS SECONDS` and prints CPU time per
row in ns for each; `NAME ROWS 0` prints the first ROWS forecasts instead.
"""

import os
import sys
import time

import numpy as np

# What libraries print goes elsewhere.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

model, rows, features, folder = sys.argv[1:]
x = np.fromfile(rows, dtype="<f8").reshape(-1, int(features))


def lleaves():
    import lleaves

    compiled = lleaves.Model(model_file=model)
    compiled.compile(fblocksize=34)
    return lambda batch: compiled.predict(batch, n_jobs=1)


def treelite_compiled():
    import tl2cgen
    import treelite

    library = folder + "/trees.so"
    trees = treelite.frontend.load_lightgbm_model(model)
    tl2cgen.export_lib(trees, toolchain="gcc", libpath=library, params={"quantize": 1, "parallel_comp": 4})
    predictor = tl2cgen.Predictor(library, nthread=1)
    return lambda batch: predictor.predict(tl2cgen.DMatrix(batch))


def treelite_interpreted():
    import treelite

    trees = treelite.frontend.load_lightgbm_model(model)
    return lambda batch: treelite.gtil.predict(trees, batch, nthread=1)


ready = {}
for name, prepare in [("lleaves", lleaves), ("treelite+tl2cgen", treelite_compiled), ("treelite", treelite_interpreted)]:
    try:
        forecast = prepare()
        forecast(x[:64])
        ready[name] = forecast
    except Exception as error:
        print("#", name, type(error).__name__, str(error).replace("\n", " ")[:200], file=answers)
print(*ready, file=answers, flush=True)

for line in sys.stdin:
    name, count, seconds = line.split()
    batch, forecast = np.ascontiguousarray(x[: int(count)]), ready[name]
    if float(seconds) == 0:
        print(*np.asarray(forecast(batch), dtype=float).ravel(), file=answers, flush=True)
        continue
    calls, start = 0, time.process_time()
    while (elapsed := time.process_time() - start) < float(seconds):
        forecast(batch)
        calls += 1
    print(elapsed * 1e9 / (calls * len(batch)), file=answers, flush=True)
