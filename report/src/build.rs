//! [`build`]: builds the site from folders of measurements, one environment at a time.

use super::{
    ReportError, Topic,
    evaluate::Evaluator,
    notes,
    read::{self, EnvironmentData},
    site::{self, Site},
    survey::{FormatImportance, Survey, identify},
};
use std::path::PathBuf;
use vitempo::{
    graph::{MemoryFormat, OpKind},
    predictors::{self, Method, PredictorError, TrainingRow, TrainingRows},
};

/// The contents of a report, and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Sections; none given means all of them. Their order is that of [`Topic::ALL`].
    pub topics: Vec<Topic>,
    /// Folder of the bundles for the section on accuracy: those that fit the measurements are read,
    /// the others are trained and kept there.
    pub bundles: PathBuf,
    /// Seed of splits and training.
    pub seed: u64,
}

impl Options {
    /// Whether any of the sections trains bundles.
    #[must_use]
    pub fn trains_bundles(&self) -> bool {
        self.topics().contains(&Topic::Accuracy)
    }

    /// Whether the seed decides anything in these sections.
    #[must_use]
    pub fn uses_seed(&self) -> bool {
        self.trains_bundles() || self.topics().contains(&Topic::Importance)
    }

    fn topics(&self) -> Vec<Topic> {
        let mut topics =
            if self.topics.is_empty() { Topic::ALL.to_vec() } else { self.topics.clone() };
        topics.sort_unstable();
        topics.dedup();
        topics
    }
}

/// What happens while a report is built.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// An environment was read.
    Environment {
        /// Its identifier.
        id: &'a str,
        /// Name of the dataset's folder.
        folder: &'a str,
        /// Successful measurements with the usual inputs.
        measurements: usize,
    },
    /// Something was left out, or is not as expected.
    Warning(&'a str),
    /// Training of a bundle starts.
    Training {
        /// What is fitted.
        method: Method,
        /// Number of synthetic models.
        models: usize,
        /// Whether networks around single operators are training data as well.
        operators: bool,
    },
    /// Progress of the training of a bundle.
    Fitting {
        /// What is fitted.
        method: Method,
        /// How far it is.
        fitted: predictors::Progress,
    },
    /// Training of a bundle has ended.
    Trained,
}

/// Builds the report on the datasets in `folders`: reads one environment at a time, sums it up, and
/// trains and evaluates bundles where the section on accuracy is wanted.
///
/// # Errors
/// [`ReportError`] naming the folder, file or environment at fault.
pub fn build(
    folders: &[PathBuf],
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Site, ReportError> {
    let topics = options.topics();
    let notes = notes::read(folders)?;
    let evaluator = Evaluator { folder: options.bundles.clone(), seed: options.seed };
    let mut surveys = Vec::new();
    read::environments(folders, progress, &mut |environment, progress| {
        surveys.extend(survey(environment, &topics, &evaluator, progress)?);
        Ok(())
    })?;
    if surveys.is_empty() {
        return Err(ReportError::NothingMeasured);
    }
    identify(&mut surveys);
    site::site(&surveys, &topics, &notes)
}

/// `None`, with a warning, for an environment without usable rows.
fn survey(
    environment: &EnvironmentData,
    topics: &[Topic],
    evaluator: &Evaluator,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Option<Survey>, ReportError> {
    let EnvironmentData { id, folder, dataset, .. } = environment;
    progress(Progress::Environment { id, folder, measurements: dataset.profiles.len() });
    let (mut survey, rows) = match Survey::of(&environment.measurements()) {
        Ok(found) => found,
        Err(PredictorError::NoRows { .. }) => {
            let of_memory = topics.contains(&Topic::Memory).then(|| environment.measurements());
            if let Some(survey) = of_memory.and_then(|found| Survey::of_memory(&found)) {
                return Ok(Some(survey));
            }
            progress(Progress::Warning(&format!("left out {id}: no usable operator rows")));
            return Ok(None);
        }
        Err(source) => {
            return Err(ReportError::Measurements { environment: id.clone(), source });
        }
    };
    if topics.contains(&Topic::Importance) {
        survey.importances = importances(&rows, evaluator.seed)
            .map_err(|reason| ReportError::Importance { environment: id.clone(), reason })?;
    }
    if topics.contains(&Topic::Accuracy) {
        survey.evaluations = evaluator.evaluate(dataset, progress)?;
        // The first bundle was trained on the most.
        if let Some(drift) = survey.evaluations.first().map(|e| e.drift) {
            survey
                .correct_floors(drift, &environment.measurements())
                .map_err(|source| ReportError::Measurements { environment: id.clone(), source })?;
        }
    }
    Ok(Some(survey))
}

/// Fewest convolutions of a memory format from which importance is computed.
const FEWEST_CONVOLUTIONS: usize = 200;

fn importances(rows: &TrainingRows, seed: u64) -> Result<Vec<FormatImportance>, String> {
    let mut found = Vec::new();
    for format in [MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast, MemoryFormat::Blocked] {
        let own: Vec<&TrainingRow> = rows
            .rows
            .iter()
            .filter(|r| r.op.kind == OpKind::Conv && r.op.format() == format)
            .collect();
        if own.len() < FEWEST_CONVOLUTIONS {
            continue;
        }
        let importance = predictors::importance(own, seed)?;
        found.extend(importance.map(|importance| FormatImportance { format, importance }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_ordered_and_appear_once() {
        let options = |topics: &[Topic]| Options {
            topics: topics.to_vec(),
            bundles: PathBuf::new(),
            seed: 1,
        };
        assert_eq!(options(&[]).topics(), Topic::ALL);
        let given = [Topic::Memory, Topic::Latency, Topic::Memory];
        assert_eq!(options(&given).topics(), [Topic::Latency, Topic::Memory]);
        for (topics, trains, seeded) in [
            (&[][..], true, true),
            (&[Topic::Latency, Topic::Accuracy], true, true),
            (&[Topic::Importance], false, true),
            (&given, false, false),
        ] {
            let options = options(topics);
            assert_eq!(
                (options.trains_bundles(), options.uses_seed()),
                (trains, seeded),
                "{topics:?}"
            );
        }
    }
}
