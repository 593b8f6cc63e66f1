"""Type and meaning of the columns of a dataset, as `docs/dataset-schema.md` has them; a test
compares them."""

COLUMNS: dict[str, dict[str, tuple[str, str]]] = {
    "environments": {
        "environment_id": (
            "text",
            "readable identifier with a digest of the columns that affect latencies",
        ),
        "variant": (
            "text",
            "digest of all columns: environments that differ only in `os`, in "
            "`host_json` or in which `cores` share an `environment_id`",
        ),
        "device": (
            "text",
            "name that the processor reports; of imported rows the publishers' name "
            "of the device and its set of cores, e.g. `pixel4 1large1med`",
        ),
        "processor": (
            "text",
            "`cpu`, `gpu` or `npu`",
        ),
        "cores_available": (
            "u64",
            "cores of that kind",
        ),
        "cores": (
            "list of u64",
            "logical cores the threads were pinned to; empty: not pinned",
        ),
        "framework": (
            "text",
            "inference engine",
        ),
        "framework_version": (
            "text",
            "its own version",
        ),
        "threads": (
            "u64",
            "threads inside one operator",
        ),
        "precision": (
            "text",
            "precision asked for, e.g. `f32`",
        ),
        "memory_format": (
            "text or null",
            "memory format asked for: `channels_first`, `channels_last` or `blocked`;"
            " null: left to the framework; since version 2",
        ),
        "power_mode": (
            "text or null",
            "frequency governor or power mode, where the system reports it",
        ),
        "isa": (
            "text",
            "instruction set extensions that engines choose kernels by",
        ),
        "os": (
            "text",
            "operating system and release",
        ),
        "beside": (
            "text or null",
            "the load that ran on other cores meanwhile, e.g. `stream`, "
            "`stream:2GB/s`, `matmul` or `model:NAME-DIGITS@ENGINE`; part of "
            "`environment_id`; null: nothing; since version 5",
        ),
        "settings": (
            "text or null",
            "settings of the framework that differ from its defaults, separated by "
            "commas: `cuda-graph`, `tf32`, `no-tf32` (backends.md); part of "
            "`environment_id`; null: none; since version 7",
        ),
        "host_json": (
            "text or null",
            "the machine when the session began, no part of `environment_id`: "
            "`processor` (family/model/stepping/microcode), `virtualised`, "
            "`threads_per_core`, `caches` (level, kind, bytes, shared_by), "
            "`clock_mhz`, `highest_clock_mhz`, `memory_bytes`, "
            "`memory_available_bytes`, `logical_cores`, and `stolen_ticks` (steal "
            "time), `idle_ticks` and `ticks` (all time) of all cores since the machine "
            "began; what is not reported is absent; since version 6",
        ),
    },
    "operators": {
        "op_id": (
            "text",
            "first 16 digits of the BLAKE3 digest of `spec_json`",
        ),
        "kind": (
            "text",
            "what it computes, e.g. `conv`; `unsupported:<name>` where vitempo has no such kind",
        ),
        "spec_json": (
            "text",
            "canonical JSON of kind, attributes, input and output tensors; floats "
            'without a JSON number are `{"float": "-inf"}`',
        ),
        "memory_format": (
            "text",
            "`channels_first`, `channels_last` or `blocked`, of the first computed input",
        ),
        "precision": (
            "text",
            "of the first output",
        ),
        "macs": (
            "u64",
            "multiply-accumulates",
        ),
        "flops": (
            "u64",
            "floating-point operations",
        ),
        "bytes_read": (
            "u64",
            "every input once, weights included",
        ),
        "bytes_written": (
            "u64",
            "every output once",
        ),
        "params": (
            "u64",
            "elements of weights",
        ),
    },
    "models": {
        "architecture": (
            "text",
            "digest of structure, attributes and shapes; names and weights do not count",
        ),
        "model": (
            "text",
            "the model's name: the stem of its file",
        ),
        "space": (
            "text or null",
            "search space it was sampled from; null: a real model",
        ),
        "encoding": (
            "text or null",
            "its encoding in that space",
        ),
        "operators": (
            "u64",
            "nodes of the graph",
        ),
        "macs": (
            "u64",
            "as above, over the graph",
        ),
        "flops": (
            "u64",
            "as above",
        ),
        "bytes_read": (
            "u64",
            "as above",
        ),
        "bytes_written": (
            "u64",
            "as above",
        ),
        "params": (
            "u64",
            "as above; a weight read twice counts once",
        ),
        "graph_json": (
            "text or null",
            "the graph as its file has it, without weights; small constants that "
            "shapes depend on are kept",
        ),
    },
    "operator_measurements": {
        "op_id": (
            "text",
            "which operator: a row of `operators.parquet`",
        ),
        "environment_id": (
            "text",
            "key of the model run",
        ),
        "architecture": (
            "text",
            "key of the model run",
        ),
        "model": (
            "text",
            "key of the model run",
        ),
        "sitting": (
            "text",
            "key of the model run",
        ),
        "round": (
            "u64",
            "key of the model run",
        ),
        "position": (
            "u64",
            "place in the order of execution, from 0",
        ),
        "node": (
            "text",
            "name of the node as the framework reports it; empty: measured on its own",
        ),
        "kernel": (
            "text",
            "the framework's own name of the kernel",
        ),
        "origin": (
            "text",
            "that of the model run",
        ),
        "status": (
            "text",
            "`ok` or `failed`",
        ),
        "reason": (
            "text or null",
            "why it failed",
        ),
        "wall_ns": (
            "list of u64",
            "wall-clock time of each repeat",
        ),
        "cpu_ns": (
            "list of u64",
            "CPU time of each repeat; empty where the engine does not report it",
        ),
        "memory_bytes": (
            "u64 or null",
            "memory the engine took for this operator, where it reports it; since version 2",
        ),
    },
    "model_measurements": {
        "environment_id": (
            "text",
            "where: with `environment_variant`, a row of `environments.parquet`",
        ),
        "environment_variant": (
            "text",
            "where: with `environment_variant`, a row of `environments.parquet`",
        ),
        "architecture": (
            "text",
            "which model: with `model`, a row of `models.parquet`",
        ),
        "model": (
            "text",
            "which model: with `model`, a row of `models.parquet`",
        ),
        "sitting": (
            "text",
            "name of the session",
        ),
        "round": (
            "u64",
            "round within the session",
        ),
        "started_unix_ms": (
            "u64",
            "start of the model run, since 1970-01-01 UTC",
        ),
        "origin": (
            "text",
            "`measured`, `imported` or `simulated`",
        ),
        "status": (
            "text",
            "`ok` or `failed`",
        ),
        "reason": (
            "text or null",
            "why it failed",
        ),
        "protocol_json": (
            "text",
            "warm-ups, repeats, target spread, rounds, seed, input distribution",
        ),
        "operators": (
            "u64",
            "rows of this model run in `operator_measurements.parquet`",
        ),
        "e2e_wall_ns": (
            "list of u64",
            "end-to-end wall-clock time of each repeat, profiling off",
        ),
        "e2e_cpu_ns": (
            "list of u64",
            "CPU time of the same repeats",
        ),
        "e2e_profiled_wall_ns": (
            "list of u64",
            "end-to-end wall-clock time of the runs in which operators were timed; of"
            " a CUDA graph, time on the device",
        ),
        "e2e_profiled_cpu_ns": (
            "list of u64",
            "CPU time of the same runs",
        ),
        "reference_wall_ns": (
            "list of u64",
            "runs of the reference workload before and after this model run's "
            "samples: they show drift",
        ),
        "reference_cpu_ns": (
            "list of u64",
            "CPU time of the same runs",
        ),
        "executed_precision": (
            "text or null",
            "precision in which most time of convolutions and matrix products was "
            "spent, which may differ from that asked for; null where no operator was "
            "timed; since version 2",
        ),
        "executed_memory_format": (
            "text or null",
            "memory format in which most time of convolutions and pooling was spent; "
            "since version 2",
        ),
        "peak_memory_bytes": (
            "u64 or null",
            "largest resident memory of a process that loads and runs this model "
            "alone, less its resident memory before, with the engine's library there "
            "(memory.md); null where it was not measured, where the system does not "
            "report it, where it is below the size of the weights, and on a GPU, "
            "whose memory is not that of the process. Rows without "
            "`running_memory_bytes` are of versions before 8: their worker had run "
            "other models before, so that the peak can be too low; a 0 of early "
            "versions is read as null; since version 2",
        ),
        "source": (
            "text or null",
            "of imported rows: who published them and under which licence; since version 3",
        ),
        "energy_per_inference_uj": (
            "u64 or null",
            "energy of one end-to-end sample in the mean, microjoules: of the "
            "processor package (RAPL) or the GPU's board (NVML), other programs "
            "included; null where the machine does not count it, or the samples took "
            "less than ten steps of the counter (10 ms of RAPL, 1 s of NVML); since "
            "version 4",
        ),
        "load_json": (
            "text or null",
            "of successful model runs beside a load: its `cores`, `footprint_bytes` "
            "(memory that one pass touches), `cache_bytes` (last-level cache of its "
            "core; absent where not reported), and `bytes_per_s` and `flops_per_s` "
            "before the session (`alone`) and during this model run (`during`), and "
            "`model_alone_ns` (the model's latencies just before, while the load "
            "rested; absent where not measured); since version 5",
        ),
        "running_memory_bytes": (
            "u64 or null",
            "the same as `peak_memory_bytes` once the model is loaded; since version 8",
        ),
    },
}
