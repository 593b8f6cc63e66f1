//! Forecast accuracy: three methods, environments, synthetic and real models, sizes of training
//! data, beside the mobile ViT study's printed numbers (tables 2 to 4, figures 15 and 16) and
//! beside the noise floor of the measurements that forecasts are held against. Errors are percent.

mod causes;
mod sizes;

use super::{
    Block,
    chart::{Axis, BarSeries, Chart, Mark, Series},
    evaluate::MANY_MODELS,
    forecasts::BundleEvaluation,
    group::Group,
    hue::Hue,
    leading, models_of,
    paper::PAPER,
    source,
    survey::Survey,
    table::{Cell, Table},
};
use causes::{kinds_table, paper_worst, worst_table};
use sizes::{by_size, sizes_table};
use vitempo::predictors::{Evaluation, Method, ModelRow};

pub fn section(surveys: &[Survey]) -> Vec<Block> {
    let missing = "No environment has enough synthetic models to train on and to hold out: \
        `vitempo sample --count 100 --out models/`, then `vitempo profile models/ --out data/`.";
    let few = format!(
        "Methods and sizes of training data are compared where {MANY_MODELS} synthetic models or \
         more were measured: `vitempo sample --count {MANY_MODELS} --out models/`, then `vitempo \
         profile models/ --out data/`."
    );
    let evaluated: Vec<&Survey> = surveys.iter().filter(|s| !s.evaluations.is_empty()).collect();
    let all = |what: &str| source(what, &evaluated);
    let mut intro =
        "No model evaluated here was used for training. Synthetic models are held out by a split \
         that depends on the seed alone and is the same for every method and size; all real models \
         are held out. A forecast is made from the model's file: its operators are lowered to the \
         engine's kernels, each is forecast, and the sum is corrected by the overhead seen in \
         training. The noise floor is the mean difference between one measurement of a model and \
         the next; beside it is the share of measurements within 10 % of the next one. The error \
         of a forecast is against the median of a model's measurements. \
         The study's numbers come from other devices."
            .to_owned();
    intro.extend(by_the_studys_protocol(&evaluated));
    let mut blocks = vec![Block::text(intro)];
    blocks.push(Block::figure(
        "accuracy",
        all("End-to-end error of GBDT; the tick is the noise floor"),
        by_environment(&evaluated),
        missing,
    ));
    blocks.push(Block::table(
        e2e_table(&evaluated, all("End to end, models never trained on")),
        missing,
    ));
    blocks.push(Block::table(
        operators_table(
            &evaluated,
            all("By operator and end to end, the shape of the study's tables \
            2 and 3: mean absolute percentage errors"),
        ),
        missing,
    ));
    for survey in leading(surveys).into_iter().filter(|s| s.evaluations.len() > 1) {
        let caption = source(
            &format!(
                "End-to-end error by number of synthetic models trained on, {}",
                evaluated_counts(survey)
            ),
            &[survey],
        );
        blocks.push(Block::figure(
            format!("accuracy-sizes-{}", survey.slug),
            caption,
            by_size(survey),
            missing,
        ));
    }
    blocks.push(Block::table(
        sizes_table(
            &evaluated,
            all("By training size, the shape of the study's table 4: end-to-end errors"),
        ),
        if evaluated.is_empty() { missing } else { &few },
    ));
    for survey in leading(surveys).into_iter().filter(|s| !s.evaluations.is_empty()) {
        let caption = source(
            &format!(
                "Error of each model's forecast (GBDT) against its latency, {}",
                evaluated_counts(survey)
            ),
            &[survey],
        );
        blocks.push(Block::figure(
            format!("errors-{}", survey.slug),
            caption,
            errors(survey),
            missing,
        ));
    }
    blocks.push(Block::table(
        kinds_table(&evaluated, all("GBDT by operator kind, kinds with at least 1 % of the time")),
        missing,
    ));
    blocks.push(Block::table(
        worst_table(
            &evaluated,
            all("Real models with the largest errors of GBDT, and the kinds that cause the difference"),
        ),
        "No real model was evaluated.",
    ));
    blocks.push(Block::Table(paper_worst()));
    blocks
}

/// Errors of GBDT for real ViTs when it is trained as in the study, on synthetic models alone; the
/// headline figures are trained on more.
fn by_the_studys_protocol(surveys: &[&Survey]) -> Option<String> {
    let error = |survey: &&Survey| {
        let own =
            survey.evaluations.iter().filter(|j| j.method == Method::Gbdt && j.operators == 0);
        let mape = own.max_by_key(|j| j.models)?.mape(Group::Transformer)?;
        best_fed(survey, Method::Gbdt)
            .filter(|best| best.operators > 0)
            .map(|_| format!("{mape:.1} % ({})", survey.label))
    };
    let errors: Vec<String> = surveys.iter().filter_map(error).collect();
    (!errors.is_empty()).then(|| {
        format!(
            " Its predictors are trained on synthetic transformers alone; the errors in the first \
             tables here are of predictors that are trained on networks around single operators as \
             well. By the study's protocol, without these networks, GBDT is this far off for real \
             ViTs: {}.",
            errors.join(", ")
        )
    })
}

/// The bundle of a method that was trained on the most, single operators included where there are
/// any.
pub fn best_fed(survey: &Survey, method: Method) -> Option<&BundleEvaluation> {
    survey.evaluations.iter().filter(|j| j.method == method).max_by_key(|j| (j.models, j.operators))
}

/// `60 synthetic, 47 real ViT models`: those that GBDT was evaluated on.
fn evaluated_counts(survey: &Survey) -> String {
    let sets = best_fed(survey, Method::Gbdt).into_iter().flat_map(|j| &j.sets);
    let counts: Vec<String> =
        sets.map(|(group, e)| format!("{} {group}", e.models.len())).collect();
    format!("{} models", counts.join(", "))
}

fn floor(survey: &Survey, group: Group) -> Option<f64> {
    survey.floors.models.get(&group).map(|f| f.mape)
}

fn by_environment(surveys: &[&Survey]) -> Chart {
    let groups = Group::ALL.into_iter().filter(|g| {
        surveys.iter().any(|s| best_fed(s, Method::Gbdt).is_some_and(|j| j.sets.contains_key(g)))
    });
    let series = |group: Group| BarSeries {
        name: group.to_string(),
        values: surveys.iter().map(|s| best_fed(s, Method::Gbdt)?.mape(group)).collect(),
        floors: surveys.iter().map(|s| floor(s, group)).collect(),
        hue: Hue::Group(group),
    };
    Chart::Bars {
        value: "mean absolute percentage error, %".to_owned(),
        groups: surveys.iter().map(|s| s.label.clone()).collect(),
        series: groups.map(series).collect(),
        reference: None,
    }
}

fn trained_on(evaluated: &BundleEvaluation) -> Cell {
    let operators = if evaluated.operators > 0 {
        format!(" + {} operators", evaluated.operators)
    } else {
        String::new()
    };
    Cell::text(format!("{}{operators}", evaluated.models))
}

fn e2e_table(surveys: &[&Survey], caption: String) -> Table {
    let headings = [
        "Models",
        "Environment",
        "Method",
        "Trained on",
        "Count",
        "MAPE",
        "90th percentile",
        "Within 5 %",
        "Within 10 %",
        "Interval",
        "Inside it",
        "Its width",
        "Inside the plain one",
        "Plain width",
        "From executed kernels",
        "Noise floor",
        "Repeats within 10 %",
        "Models in it",
    ];
    let mut table = Table::new("accuracy", caption, headings);
    for group in Group::ALL {
        for survey in surveys {
            for evaluated in Method::ALL.into_iter().filter_map(|m| best_fed(survey, m)) {
                let Some(e) = evaluated.sets.get(&group) else { continue };
                table.rows.push(e2e_row(survey, group, evaluated, e));
            }
        }
    }
    table
}

fn e2e_row(
    survey: &Survey,
    group: Group,
    evaluated: &BundleEvaluation,
    e: &Evaluation,
) -> Vec<Cell> {
    let whole = e.e2e.as_ref().or(e.e2e_executed.as_ref());
    let repeated = survey.floors.models.get(&group);
    vec![
        Cell::text(group.to_string()),
        Cell::text(&survey.label),
        Cell::text(evaluated.method.name()),
        trained_on(evaluated),
        whole.map_or(Cell::Blank, |w| Cell::Count(w.models)),
        Cell::percent(whole.map(|w| w.mape)),
        Cell::percent(whole.map(|w| w.p90_ape)),
        Cell::share(whole.map(|w| w.within_5pct)),
        Cell::share(whole.map(|w| w.within_10pct)),
        Cell::share(whole.map(|w| w.interval_level)),
        Cell::share(whole.map(|w| w.interval_coverage)),
        Cell::share(whole.map(|w| w.interval_width)),
        Cell::share(whole.map(|w| w.plain_coverage)),
        Cell::share(whole.map(|w| w.plain_width)),
        Cell::percent(e.e2e_executed.as_ref().map(|w| w.mape)),
        Cell::percent(repeated.map(|f| f.mape)),
        Cell::share(repeated.map(|f| f.within_10pct)),
        repeated.map_or(Cell::Blank, |f| Cell::Count(f.repeated)),
    ]
}

/// The groups of operators of the study's table 2.
const OPERATORS: [&str; 3] = ["conv", "linear", "activation"];

fn operators_table(surveys: &[&Survey], caption: String) -> Table {
    let headings = [
        "Models",
        "Environment",
        "Method",
        "Conv",
        "Conv, floor",
        "Linear",
        "Linear, floor",
        "Activation",
        "Activation, floor",
        "End to end",
        "End to end, floor",
    ];
    let mut table = Table::new("accuracy-operators", caption, headings);
    for group in Group::ALL {
        for survey in surveys {
            for evaluated in Method::ALL.into_iter().filter_map(|m| best_fed(survey, m)) {
                let Some(e) = evaluated.sets.get(&group) else { continue };
                let errors = OPERATORS.iter().flat_map(|name| {
                    let floor = survey.floors.kinds.get(*name).map(|f| f.mape);
                    [Cell::percent(e.groups.get(*name).map(|m| m.mape)), Cell::percent(floor)]
                });
                let start = [
                    Cell::text(group.to_string()),
                    Cell::text(&survey.label),
                    Cell::text(evaluated.method.name()),
                ];
                let end =
                    [Cell::percent(evaluated.mape(group)), Cell::percent(floor(survey, group))];
                table.rows.push(start.into_iter().chain(errors).chain(end).collect());
            }
        }
    }
    if !table.rows.is_empty() {
        table.rows.extend(PAPER.operators.iter().map(|p| {
            let errors = [p.conv, p.linear, p.activation, p.e2e]
                .into_iter()
                .flat_map(|error| [Cell::Percent(error), Cell::Blank]);
            let start = [
                Cell::text(paper_set(&p.set)),
                Cell::text(format!(
                    "study: {} Mobile, {}s",
                    p.framework,
                    p.processor.to_uppercase()
                )),
                Cell::text(&p.method),
            ];
            start.into_iter().chain(errors).collect()
        }));
    }
    table
}

fn paper_set(set: &str) -> String {
    if set == "real" { Group::Transformer.to_string() } else { set.to_owned() }
}

pub fn errors(survey: &Survey) -> Chart {
    let Some(evaluated) = best_fed(survey, Method::Gbdt) else {
        return Chart::Points { x: Axis::log(""), y: Axis::linear(""), series: Vec::new() };
    };
    let marks = [
        (Group::Synthetic, Mark::Ring),
        (Group::Transformer, Mark::Dot),
        (Group::Convolutional, Mark::Triangle),
        (Group::Real, Mark::Cross),
    ];
    let of = |(group, mark): (Group, Mark)| {
        let models = evaluated.sets.get(&group).map_or(&[][..], |e| e.models.as_slice());
        let point = |m: &ModelRow| {
            (m.actual_ns / 1e6, (m.predicted.point().ns() / m.actual_ns - 1.0) * 100.0)
        };
        let series = Series::new(group.to_string(), mark, models.iter().map(point).collect());
        let keys = models.iter().map(|m| (m.name.as_str(), m.architecture.as_str()));
        Series { models: models_of(group, keys), ..series }.hue(Hue::Group(group))
    };
    let series = marks.into_iter().map(of).filter(|s| !s.points.is_empty()).collect();
    Chart::Points {
        x: Axis::log("measured, ms"),
        y: Axis::linear("forecast too long by, %"),
        series,
    }
}
