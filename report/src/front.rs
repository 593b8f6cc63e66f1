//! [`plots`]: the front of an architecture search beside what it dominates, a figure per device.

use crate::{
    chart::{Axis, Chart, Mark, Series},
    draw,
};
use vitempo::search::{Candidate, Device, Objective, Outcome};

/// Names and contents of the figures, one for each device: `front.svg`, `front-2.svg`, ...
///
/// The forecast, ms, is over the score; a line is the device's latency ceiling.
///
/// ```
/// use vitempo::{
///     Bundle,
///     search::{Ceilings, Options, devices, objective::{Measure, StandIn}, search},
///     search_space::Space,
/// };
///
/// let space = Space::named("hybrid-vit")?;
/// let bundles = [Bundle::open("../bundles/epyc-onnxruntime-f32-1t.vtb")?];
/// let devices = devices(&bundles, Ceilings::default())?;
/// let mut objective = StandIn::new(&space, Measure::Flops);
/// let options = Options { candidates: 50, population: 20, seed: 0, upper: false };
/// let outcome = search(&space, &devices, &mut objective, options, &mut |_| true)?;
/// let plots = vitempo_report::front::plots(&devices, &objective, &outcome);
/// assert_eq!(plots.len(), 1);
/// assert!(plots[0].0 == "front.svg" && plots[0].1.contains("forecast latency, ms"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plots(
    devices: &[Device<'_>],
    objective: &dyn Objective,
    outcome: &Outcome,
) -> Vec<(String, String)> {
    let plot = |(index, device): (usize, &Device<'_>)| {
        let name = match index {
            0 => "front.svg".to_owned(),
            _ => format!("front-{}.svg", index + 1),
        };
        (name, draw::svg(&chart(index, device, objective, outcome)))
    };
    devices.iter().enumerate().map(plot).collect()
}

fn chart(index: usize, device: &Device<'_>, objective: &dyn Objective, outcome: &Outcome) -> Chart {
    let point = |member: &Candidate| {
        member.latencies.get(index).map(|latency| (latency.point().ms(), member.score))
    };
    let points = |members: &[Candidate]| members.iter().filter_map(point).collect::<Vec<_>>();
    let (front, dominated) = (points(&outcome.front), points(&outcome.dominated));
    let scores = || front.iter().chain(&dominated).map(|p| p.1);
    let mut series = vec![
        Series::new("front", Mark::Dot, front.clone()),
        Series::new("dominated", Mark::Ring, dominated.clone()),
    ];
    if let Some(ceiling) = device.ceiling {
        let ends =
            [scores().fold(f64::INFINITY, f64::min), scores().fold(f64::NEG_INFINITY, f64::max)];
        let line = ends.map(|score| (ceiling.ms(), score)).to_vec();
        series.push(Series::new("ceiling", Mark::Line, line));
    }
    series.retain(|s| !s.points.is_empty());
    let environment = device.bundle.environment().describe();
    Chart::Points {
        x: Axis::linear(&format!("forecast latency, ms ({environment})")),
        y: Axis::linear(objective.name()),
        series,
    }
}
