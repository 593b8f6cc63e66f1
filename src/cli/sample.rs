//! `vitempo sample`: architectures of a search space as ONNX files, with an index.

use super::{
    error::{CliError, CliResult, io_error},
    files,
    output::{self, Format, Report, Table, si},
    progress,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo_graph::{
    Graph, Work,
    onnx::{self, WeightFill, WriteOptions},
};
use vitempo_search_space::{Space, operators};

/// Most samples of one call: their graphs are in memory at the same time.
const MOST: usize = 100_000;

/// Name of the index inside the folder of samples.
pub const INDEX: &str = "index.csv";

/// Samples architectures of a search space
///
/// Example: vitempo sample --space hybrid-vit --count 100 --seed 7 --out models/
#[derive(clap::Args, Debug)]
pub struct SampleArgs {
    /// Name of a space that ships with vitempo (hybrid-vit, isotropic-vit), a TOML file,
    /// `operators`: small networks around single operators, `operator-blocks`: blocks of several,
    /// or `operator-series`: all of those that differ in one thing alone
    #[arg(long, default_value = "hybrid-vit")]
    pub space: String,

    /// How many distinct architectures
    #[arg(long, default_value_t = 10)]
    pub count: usize,

    /// The same seed gives the same files
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Folder for the ONNX files and their index
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,

    /// Leave the weights out: files of kilobytes that every verb of vitempo takes, but no other
    /// program runs
    #[arg(long)]
    pub no_weights: bool,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// One row of the index.
pub struct Sampled {
    pub name: String,
    pub space: String,
    pub encoding: String,
    pub graph: Graph,
}

/// The inventory of operators beside the search spaces: small networks around operators that a
/// space may lack.
pub fn sample_operators(count: usize, seed: u64) -> CliResult<Vec<Sampled>> {
    Ok(named(&format!("{}-s{seed}", operators::NAME), operators::sample(count, seed)?))
}

fn named(prefix: &str, samples: Vec<operators::OperatorSample>) -> Vec<Sampled> {
    let row = |s: operators::OperatorSample| {
        let name = format!("{prefix}-{}", s.encoding);
        Sampled {
            graph: s.graph.with_name(&name),
            name,
            space: operators::NAME.to_owned(),
            encoding: s.encoding,
        }
    };
    samples.into_iter().map(row).collect()
}

/// The space by that name or in that file.
pub fn open_space(space: &str) -> CliResult<Space> {
    Ok(Space::find(space)?)
}

/// Samples architectures and builds their graphs; names tell space, seed and position.
pub fn sample(space: &Space, count: usize, seed: u64) -> CliResult<Vec<Sampled>> {
    let digits = count.saturating_sub(1).to_string().len().max(3);
    let build =
        |(i, architecture): (usize, vitempo_search_space::Architecture)| -> CliResult<Sampled> {
            let name = format!("{}-s{seed}-{i:0digits$}", space.name());
            let graph = architecture.to_graph()?.with_name(&name);
            Ok(Sampled {
                name,
                space: space.name().to_owned(),
                encoding: architecture.encode(),
                graph,
            })
        };
    space.sample_many(count, seed)?.into_iter().enumerate().map(build).collect()
}

pub fn run(args: &SampleArgs) -> CliResult {
    if !(1..=MOST).contains(&args.count) {
        return Err(CliError::user(format!(
            "cannot sample {} architectures (--count)",
            args.count
        ))
        .hint(format!("ask for 1 to {MOST}; more in several folders, by other seeds")));
    }
    let samples = match args.space.as_str() {
        operators::NAME => sample_operators(args.count, args.seed)?,
        operators::BLOCKS => named(
            &format!("{}-s{}", operators::BLOCKS, args.seed),
            operators::blocks(args.count, args.seed)?,
        ),
        operators::SERIES => named(operators::SERIES, operators::series()?),
        space => sample(&open_space(space)?, args.count, args.seed)?,
    };
    std::fs::create_dir_all(&args.out).map_err(|e| io_error("make folder", &args.out, &e))?;
    let weights = if args.no_weights { WeightFill::Omitted } else { WeightFill::Seeded(args.seed) };
    let bar = progress::bar(samples.len() as u64, "writing");
    for sample in &samples {
        onnx::write_file(
            &args.out.join(format!("{}.onnx", sample.name)),
            &sample.graph,
            &WriteOptions { weights },
        )?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let report = Index { samples: &samples };
    let index = args.out.join(INDEX);
    files::write(&index, (report.csv()? + &other_rows(&index, &samples)?).as_bytes())?;
    output::print(&report, args.format)
}

struct Index<'a> {
    samples: &'a [Sampled],
}

impl Report for Index<'_> {
    fn table(&self) -> String {
        let mut table = Table::new(&["Model", "Encoding", "MACs", "Parameters"], 2);
        for s in self.samples.iter().take(20) {
            let work = Work::of_graph(&s.graph);
            table.row([s.name.clone(), s.encoding.clone(), si(work.macs), si(work.params)]);
        }
        let rest = self.samples.len().saturating_sub(20);
        table.to_text()
            + &if rest > 0 { format!("... and {rest} more in the index\n") } else { String::new() }
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &["name", "space", "encoding", "architecture", "macs", "params", "operators"],
            4,
        );
        for s in self.samples {
            let work = Work::of_graph(&s.graph);
            let counts =
                [work.macs, work.params, s.graph.nodes().len() as u64].map(|n| n.to_string());
            table.row(
                [s.name.clone(), s.space.clone(), s.encoding.clone(), s.graph.architecture()]
                    .into_iter()
                    .chain(counts),
            );
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |s: &Sampled| {
            let work = Work::of_graph(&s.graph);
            serde_json::json!({"name": s.name, "space": s.space, "encoding": s.encoding, "architecture": s.graph.architecture(),
                "macs": work.macs, "params": work.params, "operators": s.graph.nodes().len()})
        };
        Ok(self.samples.iter().map(row).collect())
    }
}

/// Rows of an index that is there already, of models that are not written anew: what was sampled
/// into a folder before keeps its origin.
fn other_rows(index: &Path, samples: &[Sampled]) -> CliResult<String> {
    let Ok(mut reader) = csv::Reader::from_path(index) else { return Ok(String::new()) };
    let names: std::collections::BTreeSet<&str> = samples.iter().map(|s| s.name.as_str()).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in reader.records() {
        let record = record.map_err(|e| {
            CliError::user(format!("{}: {e}", index.display()))
                .hint("remove the damaged index, or sample into another folder")
        })?;
        if record.get(0).is_some_and(|name| !names.contains(name)) {
            writer.write_record(&record).map_err(CliError::ours)?;
        }
    }
    let bytes = writer.into_inner().map_err(CliError::ours)?;
    String::from_utf8(bytes).map_err(CliError::ours)
}

/// Name to (space, encoding), from the index of a folder of samples; `None` where there is no such
/// index.
pub fn read_index(folder: &Path) -> Option<BTreeMap<String, (String, String)>> {
    let mut reader = csv::Reader::from_path(folder.join(INDEX)).ok()?;
    if reader.headers().ok()?.iter().take(3).ne(["name", "space", "encoding"]) {
        return None;
    }
    let row = |r: csv::StringRecord| {
        Some((r.get(0)?.to_owned(), (r.get(1)?.to_owned(), r.get(2)?.to_owned())))
    };
    Some(reader.records().flatten().filter_map(row).collect())
}
