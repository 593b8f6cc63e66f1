//! The pages of invented measurements: well-formed, linked, safe, the same again, and with the
//! numbers of the data.

mod html;

use super::*;
use crate::{
    evaluate::Evaluator,
    survey::{Measurements, identify},
    table::three_digits,
    tests::{World, environment, graph, measurement, model, surveys},
};
use html::{Page, resolve};
use std::collections::{BTreeMap, BTreeSet};
use vitempo::{
    datasets::Dataset,
    graph::{LatencyModel, ModelIdentity, ModelProfile, OpFamily, Precision},
    predictors::{self, PredictorBundle, metrics::median},
};

/// Names that nobody should give a model.
const HOSTILE: [&str; 6] =
    ["<script>alert(1)</script>", "../../x", "\"onload=\"alert(1)", "a&b, \"c\"", "", "vit!"];

/// The name of two models with different operators.
const TWIN: &str = "twin";

fn world(synthetic: usize) -> World {
    let others: Vec<_> = HOSTILE
        .into_iter()
        .chain([TWIN; 2])
        .enumerate()
        .map(|(number, name)| {
            let attends = number % 2 == 0 || name == TWIN;
            model(name, None, graph(201 + 4 * number, attends))
        })
        .collect();
    World::of(synthetic, &others)
}

/// Two runs of each model, the second a tenth longer.
fn profiles(world: &World, framework: &str) -> Vec<ModelProfile> {
    let mut environment = environment(Precision::F32, None);
    environment.framework = framework.to_owned();
    let twice = |m: &(ModelIdentity, _)| {
        [(0, 4.0), (1, 4.4)].map(|(round, ns)| measurement(m, &environment, round, ns, "zeros"))
    };
    world.models.iter().flat_map(twice).collect()
}

fn survey(world: &World, framework: &str, profiles: &[ModelProfile]) -> Survey {
    let measurements = Measurements {
        folder: format!("made-up {framework}"),
        profiles,
        other_inputs: &[],
        graphs: &world.graphs,
        failed: 0,
    };
    Survey::of(&measurements).unwrap_or_else(|e| panic!("{e}")).0
}

/// Three environments with plain names, and one with hostile ones.
fn hostile() -> Vec<Survey> {
    let world = world(6);
    let framework = "<img src=x>";
    let mut all = surveys();
    all.push(survey(&world, framework, &profiles(&world, framework)));
    identify(&mut all);
    all
}

/// An evaluated environment, its runs, and the bundle that was trained for it.
struct Evaluated {
    world: World,
    profiles: Vec<ModelProfile>,
    surveys: Vec<Survey>,
    bundle: PredictorBundle,
}

fn evaluated() -> Evaluated {
    let world = world(24);
    let profiles = profiles(&world, "rten");
    let mut surveys = vec![survey(&world, "rten", &profiles)];
    let dataset = Dataset {
        profiles: profiles.clone(),
        graphs: world.graphs.clone(),
        models: world.models.iter().map(|(identity, _)| identity.clone()).collect(),
        ..Dataset::default()
    };
    let folder = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let evaluator = Evaluator { folder: folder.path().to_owned(), seed: 1 };
    let found = evaluator.evaluate(&dataset, &mut |_| {});
    surveys[0].evaluations = found.unwrap_or_else(|e| panic!("{e}"));
    identify(&mut surveys);
    let kept = std::fs::read_dir(folder.path()).expect("bundles").flatten().next();
    let bundle = PredictorBundle::load(&kept.expect("a bundle").path());
    Evaluated { world, profiles, surveys, bundle: bundle.unwrap_or_else(|e| panic!("{e}")) }
}

fn pages(site: &Site) -> BTreeMap<&str, Page> {
    let html = site.files.iter().filter(|(path, _)| path.ends_with(".html"));
    html.map(|(path, text)| (path.as_str(), Page::read(path, text))).collect()
}

fn content<'a>(site: &'a Site, path: &str) -> &'a str {
    let found = site.files.iter().find(|(name, _)| name == path);
    found.map_or_else(|| panic!("no file {path}"), |(_, text)| text)
}

/// Every link of every page leads to a file, and to a place in it.
fn check_links(site: &Site) -> usize {
    let (files, pages): (BTreeSet<&str>, _) =
        (site.files.iter().map(|(path, _)| path.as_str()).collect(), pages(site));
    let mut checked = 0;
    for (path, page) in &pages {
        for link in &page.links {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { (*path).to_owned() } else { resolve(path, file) };
            assert!(files.contains(target.as_str()), "{path}: there is no {link}");
            let there = anchor.is_empty()
                || pages.get(target.as_str()).is_some_and(|p| p.ids.contains(anchor));
            assert!(there, "{path}: there is no anchor {link}");
            checked += 1;
        }
    }
    checked
}

#[test]
fn pages_are_well_formed_and_every_link_leads_somewhere() {
    let notes = Notes::from([(Topic::Latency, vec!["Here <one> engine is slower.".to_owned()])]);
    let site = site(&hostile(), &Topic::ALL, &notes).expect("a site");
    let names: BTreeSet<&str> = site.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), site.files.len(), "{names:?}");
    for (path, page) in pages(&site) {
        page.check(path);
    }
    assert!(check_links(&site) > 300);
    assert!(names.iter().filter(|name| name.ends_with(".svg")).count() > 10);
    // A page for each of 4 environments, 10 studies, and 2, 6 and 2 models.
    let folder = |folder: &str| names.iter().filter(|n| n.starts_with(folder)).count();
    assert_eq!(["environments/", "studies/", "models/"].map(folder), [8, 10, 10]);
    let plain = content(&site, "report.md");
    assert!(plain.contains("\nHere &lt;one> engine is slower.\n"), "{plain}");
    assert!(plain.split('<').rev().skip(1).all(|before| before.ends_with('\\')), "{plain}");
    let latency = content(&site, "studies/latency.html");
    assert_eq!(latency.matches("Here &lt;one&gt; engine is slower.</p>").count(), 1);
    let tables: serde_json::Value =
        serde_json::from_str(content(&site, "tables.json")).unwrap_or_else(|e| panic!("{e}"));
    let tables = tables["tables"].as_array().expect("tables");
    assert!(tables.len() > 10 && tables[0]["name"] == "environments");
}

#[test]
fn hostile_names_are_text_and_no_paths() {
    let site = site(&hostile(), &Topic::ALL, &Notes::new()).expect("a site");
    for (path, text) in site.files.iter().filter(|(path, _)| path.ends_with(".html")) {
        assert!(!path.contains("..") && !path.contains('<') && path.is_ascii(), "{path}");
        for hostile in ["<script>alert", "<img", "\"onload=", "<CPU>"] {
            assert!(!text.contains(hostile), "{path} has {hostile}");
        }
    }
    let page = content(&site, "models/script-alert-1-script.html");
    assert!(page.contains("<h1>&lt;script&gt;alert(1)&lt;/script&gt;</h1>"), "{page}");
    for slug in ["x", "onload-alert-1", "a-b-c", "unnamed"] {
        content(&site, &format!("models/{slug}.html"));
    }
    // `vit!` and `vit`: two names, one slug.
    assert_eq!(site.files.iter().filter(|(path, _)| path.starts_with("models/vit")).count(), 2);
    let data = content(&site, "environments/img-src-x-f32.csv");
    assert!(data.contains("\n\"a&b, \"\"c\"\"\","), "{data}");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let once = || site(&hostile(), &Topic::ALL, &Notes::new()).expect("a site");
    assert_eq!(once(), once());
}

#[test]
fn some_studies_alone_have_no_links_to_the_others() {
    let topics = [Topic::Latency, Topic::Quantization];
    let some = site(&hostile(), &topics, &Notes::new()).expect("a site");
    check_links(&some);
    let studies: Vec<&str> = some
        .files
        .iter()
        .map(|(path, _)| path.as_str())
        .filter(|path| path.starts_with("studies/"))
        .collect();
    assert_eq!(studies, ["studies/latency.html", "studies/quantization.html"]);
    assert!(!content(&some, "index.html").contains("breakdown.html"));
    // A forecast that is missing says why.
    let page = content(&some, "models/vit.html");
    assert!(page.contains("made without its section <code>accuracy</code>"), "{page}");
    let all = site(&hostile(), &Topic::ALL, &Notes::new()).expect("a site");
    let page = content(&all, "models/vit.html");
    assert!(page.contains("12 synthetic models were measured here"), "{page}");
    for (path, page) in pages(&site(&[], &[], &Notes::new()).expect("a site")) {
        page.check(path);
    }
}

#[test]
fn pages_have_the_numbers_of_the_data_and_of_the_evaluation() {
    let Evaluated { world, profiles, surveys, bundle } = evaluated();
    let site = site(&surveys, &Topic::ALL, &Notes::new()).expect("a site");
    check_links(&site);
    let page = content(&site, "models/vit.html");
    let of_vit: Vec<ModelProfile> =
        profiles.iter().filter(|p| p.model.name == "vit").cloned().collect();
    assert_eq!(of_vit.len(), 2);
    // Measured: the median of two runs, and how far they are apart.
    let runs: Vec<f64> = of_vit
        .iter()
        .filter_map(|p| median(&p.e2e.wall_ns.iter().map(|ns| *ns as f64).collect::<Vec<_>>()))
        .collect();
    let measured = median(&runs).expect("two runs");
    let cell = |text: String| format!("<td class=\"n\">{text}</td>");
    let mut expected = vec![
        cell(three_digits(measured / 1e6)),
        cell(format!("{:.1} %", (runs[1] - runs[0]) / measured * 100.0)),
    ];
    // Forecast: evaluated once more.
    let again = predictors::evaluate(&bundle, &of_vit, &world.graphs);
    let row = &again.unwrap_or_else(|e| panic!("{e}")).models[0];
    let ends = [row.predicted.point(), row.predicted.lower(), row.predicted.upper()];
    expected.extend(ends.map(|latency| cell(three_digits(latency.ms()))));
    let error = (row.predicted.point().ns() / row.actual_ns - 1.0) * 100.0;
    let error = (error * 10.0).round() / 10.0 + 0.0;
    expected.push(cell(format!("{error:+.1} %")));
    let inside = row.predicted.lower().ns() <= measured && measured <= row.predicted.upper().ns();
    expected.push(format!("<td>{}</td>", if inside { "yes" } else { "no" }));
    for cells in &expected {
        assert!(page.contains(cells), "{cells} is not in {page}");
    }
    // Time by operator family, forecast by the bundle itself.
    let vit = world.models.iter().find(|(m, _)| m.name == "vit").expect("a model");
    let forecast = bundle.predict(&vit.1).unwrap_or_else(|e| panic!("{e}"));
    for family in [OpFamily::Convolution, OpFamily::MatrixProduct] {
        let own = forecast.operators.iter().filter(|o| o.kind.family() == family);
        let sum: f64 = own.map(|o| o.latency_ns.ms()).sum();
        let name = family.name().replace('_', " ");
        let start = format!("<th scope=\"row\">{name}</th>");
        let line = page.lines().find(|line| line.contains(&start)).expect("a row of the family");
        assert!(line.contains(&cell(three_digits(sum))), "{name} {sum}: {line}");
    }
    // The overview and the page of the environment have the mean error of all real models.
    let rows = surveys[0].evaluations[0].forecasts.iter().filter_map(|f| f.row.ape);
    let errors: Vec<f64> = rows.collect();
    assert_eq!(errors.len(), 2 + HOSTILE.len() + 2);
    let mean = cell(format!("{:.1} %", errors.iter().sum::<f64>() / errors.len() as f64));
    for path in ["index.html", "environments/rten-f32.html"] {
        assert!(content(&site, path).contains(&mean), "{path}: {mean}");
    }
    let data = content(&site, "environments/rten-f32.csv");
    let line = data.lines().find(|line| line.starts_with("vit,")).expect("a row");
    assert!(line.ends_with(&format!("{:.0}", row.predicted.upper().ns())), "{line}");
    equal_names_are_different_models(&site, &surveys[0]);
}

/// Each of two models of one name has its own forecast, and links to its own page.
fn equal_names_are_different_models(site: &Site, survey: &Survey) {
    let twins: Vec<_> = survey.evaluations[0].forecasts.iter().map(|f| &f.row).collect();
    let twins = twins.into_iter().filter(|row| row.name == TWIN);
    let data = content(site, "environments/rten-f32.csv");
    let (mut upper, mut pages) = (BTreeSet::new(), BTreeSet::new());
    for row in twins {
        let start = format!("{TWIN},{},", row.architecture);
        let line = data.lines().find(|line| line.starts_with(&start)).expect("a row");
        let expected = format!("{:.0}", row.predicted.upper().ns());
        assert!(line.ends_with(&format!(",{expected}")), "{line}");
        upper.insert(expected);
        let is_its_page = |(path, text): &&(String, String)| {
            path.starts_with("models/") && text.contains(&row.architecture)
        };
        let page = site.files.iter().find(is_its_page).expect("a page");
        pages.insert(page.0.as_str());
    }
    assert_eq!((upper.len(), pages.len()), (2, 2));
    // In a point of a figure each, and in a row of the table of large errors where it has one.
    let latency = content(site, "studies/latency.html");
    let accuracy = content(site, "studies/accuracy.html");
    for page in &pages {
        let link = format!("<a href=\"../{page}\"");
        assert!(latency.contains(&link), "no {link} in {latency}");
        assert_eq!(accuracy.matches(&link).count(), 2, "{link} in {accuracy}");
    }
}

#[test]
fn folders_of_nearly_one_name_have_figures_of_their_own() {
    let world = World::of(6, &[]);
    let mut all = [("d-1", 4.0), ("d_1", 2.0)].map(|(folder, ns)| Survey {
        folder: folder.to_owned(),
        ..crate::tests::survey(&world, &environment(Precision::F32, None), ns)
    });
    identify(&mut all);
    let made = site(&all, &[Topic::Latency], &Notes::new()).expect("a site");
    let figures = made.files.iter().filter(|(path, _)| path.starts_with("figures/latency-"));
    let contents: BTreeSet<&str> = figures.map(|(_, content)| content.as_str()).collect();
    assert_eq!(contents.len(), 2);
    all[1].slug = all[0].slug.clone();
    let refused = site(&all, &[Topic::Latency], &Notes::new());
    assert!(matches!(refused, Err(ReportError::EqualPaths { .. })), "{refused:?}");
}
