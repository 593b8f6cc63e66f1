//! [`evaluate`]: which tests a folder has files for, which of them are asked for, and their
//! outcomes.

use super::{CellTest, ChoiceTest, NpuTest, Outcome, PhoneTest, Protocol, phones};
use std::path::Path;
use vitempo::{
    adaptation::nearest,
    datasets::{
        DatasetError,
        published::{AiHub, Cells, Column, Phones},
    },
};

/// The precision of the test on NPUs.
const PRECISION: &str = "float";

/// What can be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Study {
    NasBench201,
    NasBench201AcrossClasses,
    FbNet,
    FbNetAcrossClasses,
    Phones,
    PhonesChosen,
    Npu,
    NpuChosen,
}

/// Why nothing is evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A file of the folder cannot be read.
    #[error(transparent)]
    Data(#[from] DatasetError),
    /// A part of no test's name.
    #[error("no test is called `{name}`")]
    UnknownTest {
        /// As it was given.
        name: String,
        /// Names of the tests.
        tests: Vec<String>,
    },
    /// A name that no device has.
    #[error("no published device is called `{name}`")]
    UnknownDevice {
        /// As it was given.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// Every model is measured.
    #[error(
        "{test}: {samples} samples leave no model to evaluate; at most {most} can be \
        measured"
    )]
    NothingLeft {
        /// Name of the test.
        test: String,
        /// Models to be measured.
        samples: usize,
        /// Most that can be.
        most: usize,
    },
    /// The folder lacks the files of the tests asked for.
    #[error("the folder has no files for a test asked for")]
    NoFiles,
}

/// Runs the tests that `folder` has files for and whose name holds `only`, without regard to case;
/// all of them without it. `say` is called with what is run next.
///
/// # Errors
/// [`StudyError`], before anything is run.
pub fn evaluate(
    folder: &Path,
    only: Option<&str>,
    protocol: &Protocol,
    say: &dyn Fn(&str),
) -> Result<Vec<Outcome>, StudyError> {
    let asked = |name: &str| {
        only.is_none_or(|only| name.to_lowercase().contains(&only.trim().to_lowercase()))
    };
    let mut studies: Vec<Study> = Study::ALL.to_vec();
    studies.retain(|study| study.names().iter().any(|name| asked(name)));
    if studies.is_empty() {
        return Err(StudyError::UnknownTest {
            name: only.unwrap_or_default().to_owned(),
            tests: Study::ALL.iter().flat_map(|study| study.names()).collect(),
        });
    }
    let data = Data::read(folder, &studies)?;
    let tests: Vec<Test<'_>> = studies.iter().filter_map(|study| data.test(*study)).collect();
    check(&tests, protocol)?;
    let mut outcomes = Vec::new();
    for test in &tests {
        say(&test.name());
        outcomes.extend(test.run(protocol));
    }
    outcomes.retain(|outcome| asked(&outcome.test) && !outcome.scores.is_empty());
    Ok(outcomes)
}

fn check(tests: &[Test<'_>], protocol: &Protocol) -> Result<(), StudyError> {
    if tests.is_empty() {
        return Err(StudyError::NoFiles);
    }
    let devices: Vec<String> = tests.iter().flat_map(Test::devices).collect();
    if let Some(name) = protocol.unseen.iter().find(|name| !devices.contains(name)) {
        let near = nearest(name, devices.iter().map(String::as_str));
        return Err(StudyError::UnknownDevice { name: name.clone(), near });
    }
    for test in tests {
        let (samples, most) = (protocol.samples, test.most_samples(protocol));
        if samples > most {
            return Err(StudyError::NothingLeft { test: test.name(), samples, most });
        }
    }
    Ok(())
}

impl Study {
    const ALL: &'static [Self] = &[
        Self::NasBench201,
        Self::NasBench201AcrossClasses,
        Self::FbNet,
        Self::FbNetAcrossClasses,
        Self::Phones,
        Self::PhonesChosen,
        Self::Npu,
        Self::NpuChosen,
    ];

    const fn cells(self) -> &'static str {
        match self {
            Self::NasBench201 => "NAS-Bench-201",
            Self::NasBench201AcrossClasses => "NAS-Bench-201, GPUs to CPUs and phones",
            Self::FbNetAcrossClasses => "FBNet, GPUs to CPUs and phones (F5)",
            _ => "FBNet",
        }
    }

    /// The names of its outcomes.
    fn names(self) -> Vec<String> {
        match self {
            Self::NasBench201
            | Self::NasBench201AcrossClasses
            | Self::FbNet
            | Self::FbNetAcrossClasses => CellTest::names(self.cells()),
            Self::Phones => PhoneTest::names(),
            Self::PhonesChosen => ChoiceTest::names(phones::NAME),
            Self::Npu => NpuTest::names(PRECISION),
            Self::NpuChosen => ChoiceTest::names(&NpuTest::test(PRECISION)),
        }
    }
}

/// What the studies asked for need of the folder.
struct Data {
    nas_bench_201: Option<Cells>,
    fbnet: Option<Cells>,
    phones: Option<Phones>,
    hub: Option<AiHub>,
}

impl Data {
    fn read(folder: &Path, studies: &[Study]) -> Result<Self, DatasetError> {
        let wanted = |of: &[Study]| studies.iter().any(|study| of.contains(study));
        Ok(Self {
            nas_bench_201: (wanted(&[Study::NasBench201, Study::NasBench201AcrossClasses])
                && Cells::has_nas_bench_201(folder))
            .then(|| Cells::nas_bench_201(folder))
            .transpose()?,
            fbnet: (wanted(&[Study::FbNet, Study::FbNetAcrossClasses]) && Cells::has_fbnet(folder))
                .then(|| Cells::fbnet(folder))
                .transpose()?,
            phones: (wanted(&[Study::Phones, Study::PhonesChosen]) && Phones::are_in(folder))
                .then(|| Phones::read(folder))
                .transpose()?,
            hub: (wanted(&[Study::Npu, Study::NpuChosen]) && AiHub::is_in(folder))
                .then(|| AiHub::read(folder))
                .transpose()?,
        })
    }

    /// `None` where the folder has no files for it.
    fn test(&self, study: Study) -> Option<Test<'_>> {
        let cells = |cells, pool, source, target| {
            Test::Cells(CellTest { name: study.cells().to_owned(), cells, pool, source, target })
        };
        Some(match study {
            Study::NasBench201 => {
                cells(self.nas_bench_201.as_ref()?, POOL_201, is_measured, is_measured)
            }
            Study::NasBench201AcrossClasses => {
                cells(self.nas_bench_201.as_ref()?, POOL_201, is_gpu, is_measured_without_gpu)
            }
            Study::FbNet => cells(self.fbnet.as_ref()?, POOL_FBNET, |_| true, is_measured),
            Study::FbNetAcrossClasses => {
                cells(self.fbnet.as_ref()?, POOL_FBNET, is_gpu, is_measured_without_gpu)
            }
            Study::Phones => Test::Phones(self.phones()?),
            Study::PhonesChosen => Test::Choice(self.phones()?.choice()),
            Study::Npu => Test::Npu(self.npus()?),
            Study::NpuChosen => Test::Choice(self.npus()?.choice()),
        })
    }

    fn phones(&self) -> Option<PhoneTest<'_>> {
        Some(PhoneTest { phones: self.phones.as_ref()? })
    }

    fn npus(&self) -> Option<NpuTest<'_>> {
        Some(NpuTest { hub: self.hub.as_ref()?, precision: PRECISION.to_owned() })
    }
}

/// Architectures of the pools.
const POOL_201: usize = 900;
const POOL_FBNET: usize = 4000;

fn is_measured(device: &Column) -> bool {
    !device.summed
}

fn is_gpu(device: &Column) -> bool {
    device.class == "gpu"
}

fn is_measured_without_gpu(device: &Column) -> bool {
    is_measured(device) && !is_gpu(device)
}

/// A study with its data.
enum Test<'a> {
    Cells(CellTest<'a>),
    Phones(PhoneTest<'a>),
    Choice(ChoiceTest),
    Npu(NpuTest<'a>),
}

impl Test<'_> {
    fn name(&self) -> String {
        let names = match self {
            Self::Cells(test) => return test.name.clone(),
            Self::Phones(_) => PhoneTest::names(),
            Self::Choice(test) => ChoiceTest::names(&test.name),
            Self::Npu(test) => NpuTest::names(&test.precision),
        };
        names.into_iter().next().unwrap_or_default()
    }

    fn devices(&self) -> Vec<String> {
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        match self {
            Self::Cells(test) => owned(test.devices()),
            Self::Phones(test) => owned(test.devices()),
            Self::Choice(test) => owned(test.devices()),
            Self::Npu(test) => test.devices(),
        }
    }

    fn most_samples(&self, protocol: &Protocol) -> usize {
        match self {
            Self::Cells(test) => test.most_samples(protocol),
            Self::Phones(test) => test.most_samples(protocol),
            Self::Choice(test) => test.most_samples(protocol),
            Self::Npu(test) => test.most_samples(protocol),
        }
    }

    fn run(&self, protocol: &Protocol) -> Vec<Outcome> {
        match self {
            Self::Cells(test) => test.run(protocol),
            Self::Phones(test) => test.run(protocol),
            Self::Choice(test) => test.run(protocol),
            Self::Npu(test) => test.run(protocol),
        }
    }
}
