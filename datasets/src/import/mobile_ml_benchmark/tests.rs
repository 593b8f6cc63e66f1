//! Small files in the published layout, with made-up numbers.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Dataset, Severity, Tolerances, validate};
use std::{fs, path::PathBuf};
use vitempo_graph::{Attribute, MemoryFormat, ModelProfile, OpKind, Origin, Precision, Processor};

const GPU: &str = "\
model,operation,feature,pixel4|gpu|float,pixel4|gpu|kernel,s10|gpu|float,s10|gpu|kernel
net,CONV_2D,\"{'Input_shape': '224', 'Input_channel': 3, 'Output_shape': '112', 'Stride': '2', 'Kernel': '3', 'Filter': '16', 'Group': '1', 'FLOPS': '1'}\",10.5,convolution_2d_0_linked_:_add_1_linked_:_relu_2,,convolution_2d_0
net,DEPTHWISE_CONV_2D,\"{'Input_shape': '114', 'Input_channel': 16, 'Output_shape': '56', 'Stride': '2', 'Kernel': '3', 'Filter': '1', 'Group': '1', 'FLOPS': '1'}\",20,depthwise_3,7.0004,depthwise_3
net,MEAN,\"{'Input_shape': '56', 'Input_channel': 16, 'Output_shape': '16', 'Stride': '-', 'Kernel': '0', 'Filter': '-', 'Group': '-', 'FLOPS': '1'}\",3,mean_4,2,mean_4
";

const CPU: &str = "\
model,operation,feature,pixel4|1large1med|float,pixel4|1large1med|quant
net,FULLY_CONNECTED,\"{'Input_shape': '-', 'Input_channel': 16, 'Output_shape': '-', 'Stride': '-', 'Kernel': '-', 'Filter': '10', 'Group': '-', 'FLOPS': '320'}\",1,0.5
net,SPLIT,\"{'Input_shape': '56', 'Input_channel': 16}\",1,
other,CONCATENATION,\"{'Input_shape': '13', 'Input_channel': 256, 'Output_shape': '13', 'Stride': '-', 'Kernel': '2', 'Filter': '512', 'Group': '-', 'FLOPS': '-'}\",4,3
";

const E2E: &str = "\
model,FLOPS,size,pixel4|1large1med|float|mean,pixel4|1large1med|float|std,pixel4|gpu|float|mean,pixel4|gpu|float|std
net,5,10,3.25,0.1,34,1
third,6,11,2,0.2,,
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> (Self, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let paths = files.iter().map(|(name, text)| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        });
        let paths = paths.collect();
        (Self(folder), paths)
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn import(&self, paths: &[PathBuf]) -> Result<Imported, DatasetError> {
        let files: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        import_mobile_ml_benchmark(&files, &FileFacts::default(), &self.out())
    }
}

fn run<'d>(dataset: &'d Dataset, model: &str, environment: &str) -> &'d ModelProfile {
    dataset
        .profiles
        .iter()
        .find(|p| p.model.name == model && p.environment.id().starts_with(environment))
        .unwrap()
}

#[test]
fn files_of_one_collection_become_runs() {
    let (folder, paths) = Folder::with(&[
        ("tflite_cnn_real_ops_gpu.csv", GPU),
        ("tflite_cnn_real_ops_cpu.csv", CPU),
        ("tflite_cnn_real_e2e.csv", E2E),
    ]);
    let imported = folder.import(&paths).unwrap();
    assert_eq!(
        (imported.runs, imported.models, imported.environments, imported.operator_rows),
        (7, 3, 4, 10)
    );
    assert_eq!(
        imported.unsupported,
        BTreeMap::from([("SPLIT: vitempo does not support this operation".to_owned(), 1)])
    );
    let dataset = Dataset::load(&folder.out()).unwrap();
    assert!(dataset.profiles.iter().all(|p| p.origin == Origin::Imported
        && p.source.as_deref() == Some(SOURCE)
        && p.model.space.is_none()));
    let gpu = run(&dataset, "net", "pixel4-tflite-2.10.0-gpu-1t-f16-");
    assert_eq!(
        (gpu.e2e.wall_ns.as_slice(), gpu.environment.processor, gpu.environment.device.as_str()),
        ([34_000].as_slice(), Processor::Gpu, "pixel4")
    );
    assert_eq!(
        gpu.operators.iter().map(|m| m.samples.wall_ns[0]).collect::<Vec<_>>(),
        [10_500, 20_000, 3_000]
    );
    assert_eq!(gpu.operators[0].kernel, "convolution_2d_0_linked_:_add_1_linked_:_relu_2");
    let conv = &gpu.operators[0].op;
    assert_eq!(
        (conv.kind.clone(), conv.attributes.text("activation"), conv.attributes.int("residual")),
        (OpKind::Conv, Some("relu"), Some(1))
    );
    assert_eq!(
        (conv.attributes.ints("pads"), conv.attributes.ints("strides")),
        ([0, 0, 1, 1].as_slice(), [2, 2].as_slice())
    );
    assert_eq!(
        (conv.outputs[0].shape.as_slice(), conv.outputs[0].precision, conv.format()),
        ([1, 16, 112, 112].as_slice(), Precision::F16, MemoryFormat::ChannelsLast)
    );
    let depthwise = &gpu.operators[1].op;
    assert_eq!(
        (depthwise.attributes.int("group"), depthwise.inputs[1].tensor.shape.as_slice()),
        (Some(16), [16, 1, 3, 3].as_slice())
    );
    assert_eq!(
        (
            gpu.operators[2].op.attributes.ints("axes"),
            gpu.operators[2].op.outputs[0].shape.as_slice()
        ),
        ([2, 3].as_slice(), [1, 16].as_slice())
    );
    let s10 = run(&dataset, "net", "s10-tflite-");
    assert_eq!(
        (s10.operators.len(), s10.operators[0].samples.wall_ns[0], s10.e2e.wall_ns.len()),
        (2, 7_000, 0)
    );
    let cpu = run(&dataset, "net", "pixel4-1large1med-tflite-2.10.0-cpu-2t-f32-");
    assert_eq!(
        (cpu.e2e.wall_ns.as_slice(), cpu.environment.threads, cpu.environment.cores_available),
        ([3_250].as_slice(), 2, 8)
    );
    assert_eq!(
        (cpu.operators[0].op.kind.clone(), cpu.operators[0].op.inputs[1].tensor.shape.as_slice()),
        (OpKind::Linear, [16, 10].as_slice())
    );
    let split = &cpu.operators[1].op;
    assert_eq!(
        (split.kind.clone(), split.attributes.int("input_channel")),
        (OpKind::Unsupported("SPLIT".into()), Some(16))
    );
    assert_eq!(split.inputs[0].tensor.shape[..], [1, 16, 56, 56]);
    let quantised = run(&dataset, "other", "pixel4-1large1med-tflite-2.10.0-cpu-2t-i8-");
    assert_eq!(
        quantised.operators[0].op.inputs.iter().map(|i| i.tensor.shape[1]).collect::<Vec<_>>(),
        [256, 256]
    );
    assert_eq!(quantised.operators[0].op.precision(), Precision::I8);
    assert!(run(&dataset, "third", "pixel4-1large1med").operators.is_empty());
    let report = validate(&folder.out(), &Tolerances::default()).unwrap();
    assert_eq!(report.of(Severity::Error).collect::<Vec<_>>(), Vec::<&crate::Finding>::new());
    assert!(
        report.findings.iter().all(|f| ["no-graph", "operator-sum"].contains(&f.check)),
        "{:?}",
        report.findings
    );
    assert!(matches!(folder.import(&paths), Err(DatasetError::NotADataset { .. })));
}

#[test]
fn environments_stand_together_and_can_be_read_alone() {
    let (folder, paths) = Folder::with(&[
        ("tflite_cnn_real_ops_gpu.csv", GPU),
        ("tflite_cnn_real_ops_cpu.csv", CPU),
        ("tflite_cnn_real_e2e.csv", E2E),
    ]);
    folder.import(&paths).unwrap();
    let whole = Dataset::load(&folder.out()).unwrap();
    let mut ids: Vec<String> = whole.profiles.iter().map(|p| p.environment.id()).collect();
    ids.dedup();
    assert_eq!(ids, Dataset::environments(&folder.out()).unwrap().into_keys().collect::<Vec<_>>());
    for id in ids {
        let one = Dataset::load_environment(&folder.out(), |other| other == id).unwrap();
        assert_eq!(
            one.profiles,
            whole.profiles.iter().filter(|p| p.environment.id() == id).cloned().collect::<Vec<_>>()
        );
    }
}

#[test]
fn torch_operations_are_read_from_their_features() {
    let rows = [
        (
            "vulkan_prepack::run_conv2d_context",
            "{'input_channel': 64, 'input_shape': 14, 'output_channel': 64, 'output_shape': 7, 'kernel_size': 3, 'stride': 2, 'padding': 1, 'filter_size': 576}",
            OpKind::Conv,
            vec![1, 64, 7, 7],
        ),
        (
            "vulkan_prepack::run_linear_context",
            "{'input_shape': 2048, 'output_shape': 1000, 'flops': 4095000}",
            OpKind::Linear,
            vec![1, 1000],
        ),
        (
            "aten::relu",
            "{'input_channel': 64, 'input_shape': 56, 'flops': 200704}",
            OpKind::Relu,
            vec![1, 64, 56, 56],
        ),
        (
            "aten::gelu",
            "{'input_channel': 192, 'input_shape': 197, 'input_size': 37824}",
            OpKind::Gelu,
            vec![1, 197, 192],
        ),
        (
            "aten::mul",
            "{'input_channel': 16, 'input_shape': 56, 'flops': 50176}",
            OpKind::Mul,
            vec![1, 16, 56, 56],
        ),
        (
            "aten::adaptive_avg_pool2d",
            "{'input_channel': 336, 'input_shape': 14, 'input_size': 65856}",
            OpKind::GlobalAveragePool,
            vec![1, 336, 1, 1],
        ),
        (
            "vulkan_prepack::run_batchnorm_context",
            "{'input_channel': 64, 'input_shape': 56, 'input_size': 200704}",
            OpKind::BatchNorm,
            vec![1, 64, 56, 56],
        ),
        (
            "aten::matmul",
            "{'input_shape_a': '[3, 197, 64]', 'input_shape_b': '[3, 197, 64]'}",
            OpKind::MatMul,
            vec![3, 197, 197],
        ),
    ];
    let text: String = rows
        .iter()
        .map(|(name, features, _, _)| format!("net,{name},\"{features}\",1.5\n"))
        .collect();
    let text = format!(
        "model,operation,feature,onefusion|2large|float\n{text}net,aten::avg_pool2d,\"{{'input_channel': 8, 'input_shape': 7}}\",1\n"
    );
    let (folder, paths) = Folder::with(&[("torch_cnn_synthetic_ops_cpu.csv", text.as_str())]);
    let imported = folder.import(&paths).unwrap();
    assert_eq!(
        imported.unsupported,
        BTreeMap::from([("aten::avg_pool2d: its features do not give its kernel".to_owned(), 1)])
    );
    let dataset = Dataset::load(&folder.out()).unwrap();
    let run = run(&dataset, "net", "onefusion-2large-pytorch-mobile-2.0.0-cpu-2t-f32-");
    assert_eq!(run.model.space.as_deref(), Some("mobile-ml-benchmark-cnn"));
    for (row, (name, _, kind, shape)) in run.operators.iter().zip(rows) {
        assert_eq!(
            (row.op.kind.clone(), row.op.outputs[0].shape.to_vec()),
            (kind, shape),
            "{name}"
        );
    }
    assert_eq!(run.operators[0].op.attributes.int("group"), Some(64));
    assert_eq!(run.operators[7].op.attributes.get("trans_b"), Some(&Attribute::Int(1)));
}

#[test]
fn what_does_not_fit_is_kept_as_unsupported_with_the_reason() {
    let rows = [
        (
            "CONV_2D",
            "{'Input_shape': '10', 'Input_channel': 3, 'Output_shape': '9', 'Stride': '2', 'Kernel': '3', 'Filter': '4', 'Group': '2'}",
        ),
        (
            "CONV_2D",
            "{'Input_shape': '99999999999', 'Input_channel': 99999999999, 'Output_shape': '1', 'Kernel': '1', 'Filter': '99999999999'}",
        ),
        (
            "MAX_POOL_2D",
            "{'Input_shape': '0', 'Input_channel': 0, 'Output_shape': '9', 'Stride': '0', 'Kernel': '0'}",
        ),
        ("CONCATENATION", "{'Input_shape': '7', 'Input_channel': 9, 'Kernel': '0', 'Filter': '4'}"),
        (
            "DEPTHWISE_CONV_2D",
            "{'Input_shape': '7', 'Input_channel': 0, 'Output_shape': '7', 'Kernel': '1', 'Filter': '1'}",
        ),
        ("BATCH_MATMUL", "{'Input_shape': '[]', 'Input_channel': '-'}"),
        ("FULLY_CONNECTED", "-"),
        ("SOFTMAX", ""),
        ("RESHAPE", "{'Output_shape': [1, 1, 1, 1, 1]}"),
    ];
    let text: String =
        rows.iter().map(|(name, features)| format!("net,{name},\"{features}\",1\n")).collect();
    let (folder, paths) = Folder::with(&[(
        "tflite_vit_real_ops_cpu.csv",
        &format!("model,operation,feature,a03s|4small|quant\n{text}"),
    )]);
    let imported = folder.import(&paths).unwrap();
    assert_eq!(
        imported.unsupported.values().sum::<usize>(),
        rows.len(),
        "{:?}",
        imported.unsupported
    );
    assert!(
        Dataset::load(&folder.out()).unwrap().profiles[0]
            .operators
            .iter()
            .all(|m| matches!(m.op.kind, OpKind::Unsupported(_)))
    );
}

#[test]
fn errors_name_file_line_and_column() {
    let header = "model,operation,feature,pixel4|gpu|float\n";
    let cases = [
        (
            "tflite_cnn_a.csv",
            format!("{header}net,RELU,-,1\nnet,RELU,-,fast\n"),
            "tflite_cnn_a.csv, line 3, column `pixel4|gpu|float`: `fast` is not a number",
        ),
        (
            "tflite_cnn_b.csv",
            format!("{header}net,RELU,-\n"),
            "line 2, column `model`: it has 3 cells, the header has 4",
        ),
        (
            "tflite_cnn_c.csv",
            format!("{header},RELU,-,1\n"),
            "line 2, column `model`: the model has no name",
        ),
        ("tflite_cnn_d.csv", format!("{header}net,,-,1\n"), "line 2, column `operation`"),
        (
            "tflite_cnn_e.csv",
            format!("{header}net,RELU,\"{{'a'\",1\n"),
            "line 2, column `feature`: it is not a dict",
        ),
        (
            "tflite_cnn_f.csv",
            "model,operation,feature,pixel4|gpu|double\n".to_owned(),
            "line 1, column `pixel4|gpu|double`: `double` is neither",
        ),
        (
            "tflite_cnn_g.csv",
            "model,operation,feature,pixel4|gpu|float,pixel4|gpu|float\n".to_owned(),
            "the column is there twice",
        ),
        (
            "tflite_cnn_h.csv",
            "date,price\n1,2\n".to_owned(),
            "column `model`: the column is missing",
        ),
        (
            "tflite_cnn_i.csv",
            "model,operation,feature\n".to_owned(),
            "column `device|cores|float`: the column is missing",
        ),
        (
            "tflite_cnn_j.csv",
            "model,FLOPS,size,pixel4|1large|float|mean\nx,1,1,1\nx,1,1,2\n".to_owned(),
            "line 3, column `model`: model `x` is there twice",
        ),
        (
            "tflite_cnn_k.csv",
            "model,FLOPS,size,pixel4|1large|float|median\n".to_owned(),
            "is neither `device|cores|precision|mean`",
        ),
        ("tflite_cnn_l.csv", String::new(), "column `model`: the column is missing"),
        (
            "phones.csv",
            header.to_owned(),
            "the file's name does not give the framework (`tflite` or `torch`)",
        ),
        (
            "tflite.csv",
            header.to_owned(),
            "the file's name does not give the kind of models (`cnn` or `vit`)",
        ),
    ];
    for (name, text, says) in cases {
        let (folder, paths) = Folder::with(&[(name, &text)]);
        let error = folder.import(&paths).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains(name), "{error}");
        assert!(!folder.out().exists(), "{name} left a dataset behind");
    }
    let (folder, paths) =
        Folder::with(&[("tflite_cnn_real_e2e.csv", E2E), ("tflite_cnn_e2e.csv", E2E)]);
    let error = folder.import(&paths).unwrap_err().to_string();
    assert!(error.contains("tflite_cnn_real_e2e.csv has been read for the same models"), "{error}");
    assert!(matches!(
        folder.import(&[PathBuf::from("nowhere_tflite_cnn.csv")]),
        Err(DatasetError::Io { .. })
    ));
}

#[test]
fn no_bytes_make_it_panic() {
    let mut state = 7u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize
    };
    for whole in [GPU, CPU, E2E] {
        for _ in 0..150 {
            let mut bytes = whole.as_bytes().to_vec();
            for _ in 0..=next() % 3 {
                let at = next() % bytes.len();
                match next() % 3 {
                    0 => bytes[at] ^= 1 << (next() % 8),
                    1 => bytes[at] = b"0123456789-'\"{}|,"[next() % 17],
                    _ => bytes.truncate(at + 1),
                }
            }
            let (folder, _) = Folder::with(&[]);
            let path = folder.0.path().join("tflite_cnn_real_ops.csv");
            fs::write(&path, bytes).unwrap();
            if folder.import(&[path]).is_ok() {
                Dataset::load(&folder.out()).unwrap();
            }
        }
    }
}
