//! The report on invented measurements: every section shows its data or says what is missing.

use super::{
    forecasts::BundleEvaluation,
    group::Group,
    survey::{Measurements, Survey, identify},
    *,
};
use std::collections::BTreeMap;
use vitempo::graph::{
    Environment, Graph, GraphBuilder, MemoryFormat, ModelIdentity, ModelProfile, OpKind, Origin,
    Precision, Processor, Protocol, Samples, Status, TensorSpec, ValueId, Work,
};
use vitempo::predictors::{Drift, EndToEnd, Evaluation, Method};

pub fn environment(precision: Precision, memory_format: Option<MemoryFormat>) -> Environment {
    Environment {
        device: "Test <CPU>".into(),
        processor: Processor::Cpu,
        cores_available: 2,
        cores: vec![0],
        framework: "engine".into(),
        framework_version: "1.0".into(),
        threads: 1,
        precision,
        memory_format,
        power_mode: None,
        isa: "isa".into(),
        os: "os".into(),
        beside: None,
        settings: Vec::new(),
        host: None,
    }
}

/// A depthwise and a pointwise convolution, an activation; with attention, a product of two
/// computed tensors.
pub fn graph(channels: usize, attends: bool) -> Graph {
    let mut b = GraphBuilder::new(format!("m{channels}{attends}"));
    let x = b.input("x", TensorSpec::f32([1, channels, 28, 28]));
    let build = |b: &mut GraphBuilder, x: ValueId| {
        let y = b.conv("depthwise", x, channels, 3, 1, 1, channels, true)?;
        let y = b.conv("pointwise", y, channels, 1, 1, 0, 1, true)?;
        let y = b.unary("act", OpKind::Gelu, y)?;
        if attends { b.binary("product", OpKind::MatMul, y, y) } else { Ok(y) }
    };
    let y = build(&mut b, x).unwrap_or_else(|e| panic!("{e}"));
    b.finish(vec![y]).unwrap_or_else(|e| panic!("{e}"))
}

pub struct World {
    pub graphs: BTreeMap<String, Graph>,
    pub models: Vec<(ModelIdentity, Graph)>,
}

/// A model of this name; sampled where it has a space.
pub fn model(name: &str, space: Option<&str>, graph: Graph) -> (ModelIdentity, Graph) {
    let identity = ModelIdentity {
        name: name.to_owned(),
        architecture: graph.architecture(),
        space: space.map(str::to_owned),
        encoding: None,
    };
    (identity, graph)
}

pub fn world() -> World {
    World::of(12, &[])
}

impl World {
    /// So many synthetic models, a real ViT, a real CNN, a single operator, and others.
    pub fn of(synthetic: usize, others: &[(ModelIdentity, Graph)]) -> Self {
        let mut models: Vec<(ModelIdentity, Graph)> = (1..=synthetic)
            .map(|i| model(&format!("synthetic-{i}"), Some("space"), graph(8 * i, true)))
            .collect();
        models.push(model("vit", None, graph(100, true)));
        models.push(model("cnn", None, graph(100, false)));
        models.push(model("alone", Some(ModelIdentity::OPERATORS), graph(116, false)));
        models.extend_from_slice(others);
        Self {
            graphs: models.iter().map(|(m, g)| (m.architecture.clone(), g.clone())).collect(),
            models,
        }
    }
}

/// One measurement of a model: every operator takes `ns` per element it writes.
pub fn measurement(
    (model, graph): &(ModelIdentity, Graph),
    environment: &Environment,
    round: usize,
    ns: f64,
    inputs: &str,
) -> ModelProfile {
    let samples =
        |total: f64| Samples { wall_ns: vec![total.round() as u64; 3], cpu_ns: Vec::new() };
    let time = |op: &vitempo::graph::OpSpec| {
        ns * op.outputs.iter().map(|t| t.elements() as f64).sum::<f64>()
    };
    let measurement = |n: &vitempo::graph::Node| vitempo::graph::Measurement {
        op: n.op.clone().into(),
        node: n.name.clone(),
        kernel: "kernel".into(),
        samples: samples(time(&n.op)),
        memory_bytes: Some(1000),
        status: Status::Ok,
    };
    let operators: Vec<_> = graph.nodes().iter().map(measurement).collect();
    let total: f64 = graph.nodes().iter().map(|n| time(&n.op)).sum();
    ModelProfile {
        model: model.clone(),
        environment: environment.clone(),
        session: format!("s{round}"),
        round,
        started_unix_ms: 1_795_219_200_000 + 86_400_000 * round as u64,
        origin: Origin::Simulated,
        source: None,
        protocol: Protocol {
            warmups: 1,
            min_repeats: 3,
            max_repeats: 3,
            target_spread: 0.01,
            rounds: 2,
            seed: 1,
            input_distribution: inputs.to_owned(),
        },
        e2e: samples(total),
        e2e_profiled: Samples::default(),
        reference: Samples::default(),
        executed: vitempo::graph::Executed::of(&operators),
        operators,
        peak_memory_bytes: Some(5_000_000),
        running_memory_bytes: Some(4_000_000),
        energy_per_inference_uj: None,
        load: None,
        status: Status::Ok,
    }
}

/// A survey in which operators take `ns` per element, and with the input values 2 twice that.
pub fn survey(world: &World, environment: &Environment, ns: f64) -> Survey {
    let twice = |m| {
        [(0, ns), (1, ns * 1.1)]
            .map(|(round, ns)| measurement(m, environment, round, ns, "uniform(-1,1)"))
    };
    let profiles: Vec<ModelProfile> = world.models.iter().flat_map(twice).collect();
    let other_inputs: Vec<ModelProfile> = world
        .models
        .iter()
        .take(3)
        .map(|m| measurement(m, environment, 0, 2.1 * ns, "constant(2)"))
        .collect();
    let measurements = Measurements {
        folder: "made-up".to_owned(),
        profiles: &profiles,
        other_inputs: &other_inputs,
        graphs: &world.graphs,
        failed: 1,
    };
    Survey::of(&measurements).unwrap_or_else(|e| panic!("{e}")).0
}

pub fn surveys() -> Vec<Survey> {
    let world = world();
    let settings = [
        (Precision::F32, Some(MemoryFormat::ChannelsFirst), 4.0),
        (Precision::F32, Some(MemoryFormat::ChannelsLast), 2.0),
        (Precision::I8, Some(MemoryFormat::ChannelsFirst), 1.0),
    ];
    settings
        .map(|(precision, format, ns)| survey(&world, &environment(precision, format), ns))
        .into()
}

fn table<'a>(blocks: &'a [Block], name: &str) -> &'a Table {
    let named = blocks.iter().find_map(|b| {
        if let Block::Table(t) = b { Some(t).filter(|t| t.name == name) } else { None }
    });
    named.unwrap_or_else(|| panic!("no table {name}"))
}

/// The cell under a heading in the row whose cells begin like this.
fn cell<'a>(table: &'a Table, row: &[&str], heading: &str) -> &'a table::Cell {
    let column = table
        .headings
        .iter()
        .position(|h| h == heading)
        .unwrap_or_else(|| panic!("no column {heading}"));
    let begins = |cells: &&Vec<table::Cell>| {
        row.iter().zip(cells.iter()).all(|(text, c)| *c == table::Cell::text(*text))
    };
    let found = table.rows.iter().find(begins).unwrap_or_else(|| panic!("no row {row:?}"));
    &found[column]
}

fn number(cell: &table::Cell) -> f64 {
    match cell {
        table::Cell::Number(v) | table::Cell::Times(v) | table::Cell::Percent(v) => *v,
        other => panic!("{other:?} is not a number"),
    }
}

#[test]
fn a_survey_sums_up_measurements() {
    let survey = &surveys()[0];
    assert_eq!(
        (survey.label.as_str(), survey.when().as_str()),
        ("engine f32 channels first", "simulated, 21 November 2026 to 22 November 2026")
    );
    let groups: Vec<usize> = Group::ALL.map(|g| survey.group(g).count()).to_vec();
    assert_eq!((groups, survey.measured_models()), (vec![12, 1, 1, 0], 14));
    assert_eq!(survey.models.iter().find(|m| m.name == "vit").and_then(|m| m.side), Some(28));
    // The second measurement takes a tenth longer.
    assert!((survey.floors.models[&Group::Synthetic].mape - 10.0).abs() < 0.2);
    assert!((survey.floors.kinds["gelu"].mape - 10.0).abs() < 0.2);
    assert_eq!(survey.input_effects.len(), 1);
    // 2.1 against the median of 1 and 1.1.
    assert!(
        survey.input_effects[0].ratios.iter().all(|r| (r - 2.0).abs() < 0.01),
        "{:?}",
        survey.input_effects
    );
}

/// The reference workload takes a tenth longer beside what takes a tenth longer.
#[test]
fn noise_floors_are_corrected_as_the_bundle_corrects() {
    let world = world();
    let environment = environment(Precision::F32, None);
    let run = |m, round, slowdown: f64| ModelProfile {
        reference: Samples { wall_ns: vec![(slowdown * 1e6) as u64; 3], cpu_ns: Vec::new() },
        ..measurement(m, &environment, round, 4.0 * slowdown, "uniform(-1,1)")
    };
    let twice = |m| [run(m, 0, 1.0), run(m, 1, 1.1)];
    let profiles: Vec<ModelProfile> = world.models.iter().flat_map(twice).collect();
    let measurements = Measurements {
        folder: "made-up".to_owned(),
        profiles: &profiles,
        other_inputs: &[],
        graphs: &world.graphs,
        failed: 0,
    };
    let (mut survey, rows) = Survey::of(&measurements).unwrap_or_else(|e| panic!("{e}"));
    let floor = |survey: &Survey| survey.floors.models[&Group::Synthetic].mape;
    assert!(floor(&survey) < 0.2, "{}", floor(&survey));
    for (drift, expected) in [(Drift::default(), 10.0), (rows.drift, 0.0)] {
        survey.correct_floors(drift, &measurements).unwrap_or_else(|e| panic!("{e}"));
        assert!((floor(&survey) - expected).abs() < 0.2, "{} {drift:?}", floor(&survey));
    }
}

/// Neither needs whole models nor `--memory-format channels-first` where the engine's own choice is
/// that.
#[test]
fn memory_formats_are_compared_on_networks_where_there_are_no_models() {
    let mut world = world();
    world.models.retain(|(m, _)| m.is_operator());
    let last = Some(MemoryFormat::ChannelsLast);
    let surveys = [
        survey(&world, &environment(Precision::F32, None), 2.0),
        survey(&world, &environment(Precision::F32, last), 1.0),
    ];
    let blocks = Topic::MemoryFormat.blocks(&surveys);
    let table = table(&blocks, "memory-format");
    let row = ["engine f32 channels last", "channels_first", "depthwise"];
    assert!((number(cell(table, &row, "Times as fast")) - 2.0).abs() < 0.01);
    assert_eq!(*cell(table, &row, "Models"), table::Cell::Count(1));
}

#[test]
fn sections_find_the_factors_that_were_put_in() {
    let surveys = surveys();
    let formats = Topic::MemoryFormat.blocks(&surveys);
    let depthwise = cell(
        table(&formats, "memory-format"),
        &["engine f32 channels last", "channels_first", "depthwise"],
        "Times as fast",
    );
    assert!((number(depthwise) - 2.0).abs() < 0.01);
    let precisions = Topic::Quantization.blocks(&surveys);
    let whole = cell(
        table(&precisions, "quantization"),
        &["engine int8 channels first", "synthetic"],
        "Times as fast",
    );
    assert!((number(whole) - 4.0).abs() < 0.01);
    let activations = Topic::Activations.blocks(&surveys);
    let gelu = cell(
        table(&activations, "activations"),
        &["engine f32 channels last", "gelu"],
        "ns per 1000 elements, median",
    );
    assert!((number(gelu) - 2100.0).abs() < 5.0, "the median of 2 and 2.2 ns per element");
    let latency = Topic::Latency.blocks(&surveys);
    let architectures = table(&latency, "architectures");
    // Each once, however often and in however many environments it was measured.
    for (group, count) in [("synthetic", 12), ("real ViT", 1), ("real CNN", 1)] {
        let found = cell(architectures, &[group], "Architectures");
        assert_eq!(*found, table::Cell::Count(count), "{group}");
    }
    assert!(number(cell(architectures, &["real ViT"], "GFLOPs, median")) > 0.0);
    let shares = Topic::Breakdown.blocks(&surveys);
    // Two convolutions and a GELU write the same number of elements.
    let convolution = cell(
        table(&shares, "breakdown"),
        &["engine f32 channels first", "real CNN"],
        "convolution",
    );
    assert!((number(convolution) - 200.0 / 3.0).abs() < 0.1);
    let depthwise = Topic::Depthwise.blocks(&surveys);
    let cost =
        cell(table(&depthwise, "depthwise"), &["engine f32 channels first"], "multiples of 32");
    assert!((number(cost) - 4200.0).abs() < 5.0);
    let memory = Topic::Memory.blocks(&surveys);
    assert!(
        number(cell(
            table(&memory, "memory"),
            &["engine f32 channels first", "real ViT"],
            "Peak, MB, median"
        )) == 5.0
    );
}

#[test]
fn a_model_whose_memory_alone_was_measured_has_memory_and_no_latency() {
    let environment = environment(Precision::F32, None);
    let (world, others) = (world(), world_of_one());
    let mut profiles: Vec<ModelProfile> =
        world.models.iter().map(|m| measurement(m, &environment, 0, 4.0, "zeros")).collect();
    let of_memory = |run: ModelProfile| ModelProfile {
        protocol: run.protocol.of_memory_alone(),
        operators: Vec::new(),
        executed: None,
        peak_memory_bytes: Some(9_000_000),
        ..run
    };
    for model in [&world.models[0], &others] {
        profiles.push(of_memory(measurement(model, &environment, 1, 400.0, "zeros")));
    }
    let measurements = Measurements {
        folder: "made-up".to_owned(),
        profiles: &profiles,
        other_inputs: &[],
        graphs: &world.graphs,
        failed: 0,
    };
    let survey = Survey::of(&measurements).unwrap_or_else(|e| panic!("{e}")).0;
    let of = |name: &str| survey.models.iter().find(|m| m.name == name).expect("a model");
    assert_eq!(survey.models.len(), world.models.len() + 1);
    let both = of(&world.models[0].0.name);
    assert_eq!((both.runs_ns.len(), both.peak_memory_bytes), (1, Some(7_000_000.0)));
    let alone = of("memory");
    assert_eq!((alone.latency_ns, alone.peak_memory_bytes), (None, Some(9_000_000.0)));
}

/// A model that is not in [`world`].
fn world_of_one() -> (ModelIdentity, Graph) {
    model("memory", None, graph(124, true))
}

#[test]
fn a_peak_that_cannot_be_one_is_left_out() {
    let environment = environment(Precision::F32, None);
    let world = world();
    let weights = world.models.iter().map(|(_, graph)| Work::of_graph(graph).params * 4).max();
    let below = weights.map(|bytes| bytes / 1000).unwrap_or_default();
    for (peaks, expected) in [
        ([Some(0), Some(0)], None),
        ([Some(below), None], None),
        ([Some(0), Some(9_000_000)], Some(9.0)),
    ] {
        let mut profiles: Vec<ModelProfile> = Vec::new();
        for (round, peak_memory_bytes) in peaks.into_iter().enumerate() {
            let measurements =
                world.models.iter().map(|m| measurement(m, &environment, round, 4.0, "zeros"));
            profiles.extend(measurements.map(|p| ModelProfile { peak_memory_bytes, ..p }));
        }
        // One model has a peak: the table is there.
        profiles[0].peak_memory_bytes = Some(9_000_000);
        let measurements = Measurements {
            folder: "made-up".to_owned(),
            profiles: &profiles,
            other_inputs: &[],
            graphs: &world.graphs,
            failed: 0,
        };
        let survey = Survey::of(&measurements).unwrap_or_else(|e| panic!("{e}")).0;
        let blocks = Topic::Memory.blocks(&[survey]);
        let of = |heading| cell(table(&blocks, "memory"), &["engine f32", "real ViT"], heading);
        assert_eq!(*of("Peak, MB, median"), table::Cell::number(expected), "{peaks:?}");
        assert_eq!(*of("Count"), table::Cell::Count(usize::from(expected.is_some())));
        assert_eq!(*of("Without a peak"), table::Cell::Count(usize::from(expected.is_none())));
    }
}

#[test]
fn what_is_missing_says_what_to_measure() {
    let alone = &surveys()[..1];
    for topic in [Topic::MemoryFormat, Topic::Quantization, Topic::Importance, Topic::Accuracy] {
        let blocks = topic.blocks(alone);
        let missing = blocks
            .iter()
            .find_map(|b| if let Block::Missing(text) = b { Some(text) } else { None });
        assert!(
            missing.is_some_and(|text| text.contains("measure") || text.contains("profile")),
            "{topic:?}"
        );
    }
    for topic in Topic::ALL {
        assert!(
            topic.blocks(&[]).iter().any(|b| matches!(b, Block::Missing(_))),
            "{topic:?} of nothing"
        );
    }
}

#[test]
fn models_that_the_study_leaves_out_are_not_missing() {
    let mut surveys = surveys();
    let works = surveys.iter_mut().flat_map(|s| &mut s.models).flat_map(|m| &mut m.work);
    works.for_each(|work| work.macs = 5_000_000_001);
    let blocks = Topic::Latency.blocks(&surveys);
    assert!(blocks.iter().any(|b| matches!(b, Block::Figure(_))));
    let missing: Vec<&Block> = blocks.iter().filter(|b| matches!(b, Block::Missing(_))).collect();
    let is_about_size =
        |b: &&Block| matches!(b, Block::Missing(text) if text.contains("more than 5 GMACs"));
    assert!(missing.len() == 1 && missing.iter().all(is_about_size), "{missing:?}");
}

#[test]
fn equal_labels_are_told_apart() {
    let mut surveys = surveys();
    surveys.extend(tests::surveys());
    surveys[3].folder = "another".to_owned();
    identify(&mut surveys);
    let labels: std::collections::BTreeSet<&str> =
        surveys.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels.len(), 6, "{labels:?}");
    assert!(labels.contains("engine f32 channels first (another)"));
}

#[test]
fn the_comparison_with_the_study_says_what_its_own_protocol_gives() {
    let evaluated = |operators, mape| {
        let e2e = EndToEnd { mape, ..EndToEnd::default() };
        let evaluation = Evaluation {
            method: Method::Gbdt,
            environment: String::new(),
            origin: Origin::Simulated,
            operators: BTreeMap::new(),
            groups: BTreeMap::new(),
            e2e: Some(e2e),
            e2e_executed: None,
            noise_floor: None,
            models: Vec::new(),
            skipped: Vec::new(),
        };
        let sets = BTreeMap::from([(Group::Transformer, evaluation)]);
        BundleEvaluation {
            method: Method::Gbdt,
            models: 900,
            operators,
            drift: Drift::default(),
            sets,
            forecasts: Vec::new(),
        }
    };
    let intro = |evaluated: Vec<BundleEvaluation>| {
        let mut surveys = surveys();
        surveys[0].evaluations = evaluated;
        match &Topic::Accuracy.blocks(&surveys)[0] {
            Block::Text(text) => text.clone(),
            other => panic!("{other:?} is not text"),
        }
    };
    let both = intro(vec![evaluated(0, 7.75), evaluated(3808, 4.7)]);
    assert!(both.ends_with("real ViTs: 7.8 % (engine f32 channels first)."), "{both}");
    for alone in [vec![evaluated(0, 7.75)], vec![evaluated(3808, 4.7)], Vec::new()] {
        assert!(intro(alone).ends_with("other devices."));
    }
}
