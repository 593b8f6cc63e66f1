//! `vitempo-studies placements`: placements that are chosen from forecasts, on engines.

use super::{
    arguments,
    print::{self, Failure, Format, Table, percent},
};
use serde_json::json;
use std::{path::PathBuf, sync::Arc};
use vitempo::{Bundle, plan::live::Engine};
use vitempo_studies::{
    placements::{
        Record,
        measure::{PlacementsError, Protocol, measure},
        score::{Goal, Planner, Scores, mean, score},
    },
    record::{self, RecordError},
};

/// Runs every placement of models in two and three parts on engines, and compares the placements
/// that planners choose with the best one
///
/// Nothing else should run on the machine. A second run goes on where the first one stopped;
/// without models it prints what the record has.
///
/// Example: vitempo-studies placements models/ --engine a=onnxruntime@0,epyc-onnxruntime-f32-1t
/// --engine b=rten@1,epyc-rten-f32-1t --record placements.json
#[derive(clap::Args, Debug)]
pub struct PlacementsArgs {
    /// ONNX files, folders of them, or globs
    #[arg(value_name = "MODELS")]
    models: Vec<String>,
    /// An engine on a core of its own, and the bundle that forecasts it; the first is the default
    #[arg(long = "engine", value_name = "NAME=BACKEND[@CORE],BUNDLE", value_parser = engine)]
    engines: Vec<(Engine, String)>,
    /// Numbers of parts
    #[arg(long, value_delimiter = ',', default_values_t = [2, 3], value_name = "COUNTS")]
    parts: Vec<usize>,
    /// Measured frames of every run
    #[arg(long, default_value_t = 15)]
    frames: usize,
    /// Runs of every placement; two or more give the noise floor
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Raw samples, kept after every model
    #[arg(long, value_name = "FILE.json")]
    record: PathBuf,
    /// A row per model instead of means
    #[arg(long)]
    each: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn engine(text: &str) -> Result<(Engine, String), String> {
    let parse = || {
        let (engine, bundle) = text.split_once(',')?;
        let (name, engine) = engine.split_once('=')?;
        let (backend, cores) = match engine.split_once('@') {
            Some((backend, core)) => (backend, vec![core.parse().ok()?]),
            None => (engine, Vec::new()),
        };
        let engine = Engine { name: name.to_owned(), backend: backend.to_owned(), cores };
        Some((engine, bundle.to_owned()))
    };
    parse().ok_or_else(|| "expected NAME=BACKEND[@CORE],BUNDLE".to_owned())
}

pub fn run(args: &PlacementsArgs) -> Result<(), Failure> {
    let record = if args.models.is_empty() { read(args)? } else { measured(args)? };
    let scores = score(&record);
    match args.format {
        Format::Table => print::write(&text(&record, &scores, args.each)),
        Format::Csv => print::write(&rows(&scores, args.each).to_csv()?),
        Format::Json => print::write_json(&json!({"engines": record.engines, "scores": scores})),
    }
}

fn read(args: &PlacementsArgs) -> Result<Record, Failure> {
    record::read(&args.record).map_err(Failure::new)?.ok_or_else(|| {
        Failure::new(format!("{} does not exist", args.record.display()))
            .hint("give models to measure")
    })
}

fn measured(args: &PlacementsArgs) -> Result<Record, Failure> {
    if args.engines.len() < 2 {
        return Err(Failure::new("placements need two engines or more")
            .hint("--engine a=onnxruntime@0,BUNDLE --engine b=rten@1,BUNDLE"));
    }
    if args.parts.iter().any(|&parts| !(2..=4).contains(&parts)) {
        return Err(Failure::new("--parts takes numbers from 2 to 4"));
    }
    if args.frames < 2 || args.rounds == 0 {
        return Err(Failure::new("--frames is 2 or more, --rounds 1 or more"));
    }
    let open = |(engine, bundle): &(Engine, String)| -> Result<(Engine, Bundle), Failure> {
        Ok((engine.clone(), Bundle::open(bundle).map_err(Failure::new)?))
    };
    let models = arguments::models(&args.models)?;
    let protocol = Protocol {
        engines: args.engines.iter().map(open).collect::<Result<_, _>>()?,
        parts: args.parts.clone(),
        frames: args.frames,
        rounds: args.rounds,
        record: &args.record,
        interrupted: Arc::default(),
    };
    let say = |next: &str| eprintln!("{next} ...");
    measure(&models, &protocol, &say).map_err(|error| {
        let failure = Failure::new(&error);
        match error {
            PlacementsError::Record(RecordError::OtherProtocol { .. }) => failure.hint(
                "repeat its engines, --parts, --frames and --rounds, or name another --record",
            ),
            _ => failure,
        }
    })
}

const HEADINGS: [&str; 12] = [
    "Model",
    "Goal",
    "Hand-over",
    "Parts alone off",
    "Placements off",
    "By measured parts",
    "Rank",
    "Regret, forecasts",
    "Measured",
    "FLOPs",
    "Default",
    "Noise",
];

fn rows(scores: &[Scores], each: bool) -> Table {
    let mut table = Table::new(&HEADINGS, 2);
    if each {
        for one in scores {
            table.row(row(&format!("{} in {}", one.model, one.parts), &[one]));
        }
        return table;
    }
    let mut numbers: Vec<usize> = scores.iter().map(|one| one.parts).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for parts in numbers {
        for (goal, is_in) in Goal::ALL.into_iter().flat_map(|goal| [(goal, false), (goal, true)]) {
            let is_of = |one: &&Scores| {
                one.parts == parts && one.goal == goal && one.hand_over_ns.is_some() == is_in
            };
            let of: Vec<&Scores> = scores.iter().filter(is_of).collect();
            if !of.is_empty() {
                table.row(row(&format!("{} models in {parts}", of.len()), &of));
            }
        }
    }
    table
}

/// Means over these scores, which have one goal.
fn row(name: &str, scores: &[&Scores]) -> Vec<String> {
    let over = |of: &dyn Fn(&Scores) -> Option<f64>| mean(scores.iter().filter_map(|s| of(s)));
    let share = |of: &dyn Fn(&Scores) -> Option<f64>| over(of).map_or("-".to_owned(), percent);
    let goal = scores.first().map_or("", |score| match score.goal {
        Goal::Latency => "latency",
        Goal::Period => "period",
    });
    let rank = over(&|s| s.rank_correlation).map_or("-".to_owned(), |rank| format!("{rank:.3}"));
    let mut cells = vec![
        name.to_owned(),
        goal.to_owned(),
        over(&|s| s.hand_over_ns).map_or("-".to_owned(), |ns| format!("{:.2} ms", ns / 1e6)),
        share(&|s| Some(s.part_error)),
        share(&|s| Some(s.forecast_error)),
        share(&|s| Some(s.cost_error)),
        rank,
    ];
    for planner in 0..Planner::ALL.len() {
        cells.push(share(&|s| Some(s.regret[planner])));
    }
    cells.push(share(&|s| s.noise));
    cells
}

fn text(record: &Record, scores: &[Scores], each: bool) -> String {
    let engine = |engine: &vitempo_studies::placements::EngineRecord| {
        let (here, bundle) = (engine.environment.describe(), &engine.bundle);
        format!("{}: {here}\n   forecast by {bundle}\n", engine.name)
    };
    let engines: String = record.engines.iter().map(engine).collect();
    let apart = record
        .models
        .iter()
        .flat_map(|model| &model.divisions)
        .flat_map(|division| &division.placements)
        .filter_map(|placement| placement.apart)
        .fold(0.0, f64::max);
    format!(
        "{engines}\n{}\nlive; hand-over: what each part takes beyond its time alone, the median over the \
        other models; regret: above the best measured placement. Results differ from those of the \
        whole model by at most {apart:.1e} of the largest value\n",
        rows(scores, each).to_text()
    )
}
