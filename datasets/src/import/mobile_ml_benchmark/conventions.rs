//! The publishers' names of files, devices and sets of cores; and the versions of the frameworks,
//! from the repository's own scripts.

use super::FileFacts;
use crate::DatasetError;
use std::path::Path;
use vitempo_graph::{Environment, Precision, Processor};

/// The inference engines of the publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Framework {
    /// TensorFlow Lite: 2.10.0 for CNNs, 2.15.0 for vision transformers.
    TfLite,
    /// PyTorch Mobile 2.0.0.
    TorchMobile,
}

/// The kinds of models of the publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Convolutional networks.
    Cnn,
    /// Vision transformers.
    Vit,
}

impl Framework {
    /// Name of the engine in an environment.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TfLite => "tflite",
            Self::TorchMobile => "pytorch-mobile",
        }
    }

    const fn version(self, family: Family) -> &'static str {
        match (self, family) {
            (Self::TfLite, Family::Cnn) => "2.10.0",
            (Self::TfLite, Family::Vit) => "2.15.0",
            (Self::TorchMobile, _) => "2.0.0",
        }
    }
}

impl Family {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cnn => "cnn",
            Self::Vit => "vit",
        }
    }
}

/// The collection of a file's models: files of equal collections have the same models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Collection {
    pub(super) framework: Framework,
    pub(super) family: Family,
    pub(super) synthetic: bool,
}

impl Collection {
    /// From a file's name and, where it has none, from `facts`.
    pub(super) fn of(path: &Path, facts: &FileFacts) -> Result<Self, DatasetError> {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
        let says = |names: &[&str]| {
            stem.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| names.contains(&word))
        };
        let refuse = |fact| DatasetError::NotInName { path: path.to_owned(), fact };
        let named = [
            (Framework::TfLite, says(&["tflite"])),
            (Framework::TorchMobile, says(&["torch", "pytorch"])),
        ];
        let framework = one(&named)
            .or(facts.framework)
            .ok_or_else(|| refuse("the framework (`tflite` or `torch`)"))?;
        let named =
            [(Family::Cnn, says(&["cnn", "nas"])), (Family::Vit, says(&["vit", "transformer"]))];
        let family = one(&named)
            .or(facts.family)
            .ok_or_else(|| refuse("the kind of models (`cnn` or `vit`)"))?;
        let synthetic = says(&["synthetic", "nas"]) || (facts.synthetic && !says(&["real"]));
        Ok(Self { framework, family, synthetic })
    }
}

/// The only one that is so.
fn one<T: Copy>(choices: &[(T, bool)]) -> Option<T> {
    let mut so = choices.iter().filter(|(_, so)| *so);
    so.next().filter(|_| so.next().is_none()).map(|(choice, _)| *choice)
}

/// Where a column was measured.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Setting {
    pub(super) device: String,
    /// A set of cores; `None`: the GPU.
    pub(super) cores: Option<String>,
    pub(super) precision: Precision,
}

/// Devices of the publication: all their cores, and the operating system.
const DEVICES: [(&str, usize, &str); 7] = [
    ("pixel4", 8, "Android"),
    ("mi8se", 8, "Android"),
    ("onefusion", 8, "Android"),
    ("s10", 8, "Android"),
    ("a03s", 8, "Android"),
    ("iphonexs", 6, "iOS"),
    ("iphone7", 4, "iOS"),
];

impl Setting {
    /// From the parts of a column's name. GPUs computed every model in 16 bits.
    pub(super) fn new(device: &str, cores: &str, precision: &str) -> Result<Self, String> {
        let gpu = cores == "gpu";
        let precision = match precision {
            "float" if gpu => Precision::F16,
            "float" => Precision::F32,
            "quant" => Precision::I8,
            other => return Err(format!("`{other}` is neither `float` nor `quant`")),
        };
        if device.is_empty() {
            return Err("it names no device".to_owned());
        }
        if !gpu && threads(cores).is_none() {
            return Err(format!(
                "`{cores}` is neither `gpu` nor a set of cores such as `1large1med`"
            ));
        }
        Ok(Self { device: device.to_owned(), cores: (!gpu).then(|| cores.to_owned()), precision })
    }

    /// The environment; device and set of cores are both in its name.
    pub(super) fn environment(&self, collection: Collection) -> Environment {
        let threads = self.cores.as_deref().and_then(threads).unwrap_or(1);
        let known = DEVICES.iter().find(|(name, _, _)| *name == self.device);
        Environment {
            device: self
                .cores
                .as_ref()
                .map_or_else(|| self.device.clone(), |cores| format!("{} {cores}", self.device)),
            processor: if self.cores.is_some() { Processor::Cpu } else { Processor::Gpu },
            cores_available: if self.cores.is_some() {
                known.map_or(threads, |(_, cores, _)| *cores)
            } else {
                1
            },
            cores: Vec::new(),
            framework: collection.framework.name().to_owned(),
            framework_version: collection.framework.version(collection.family).to_owned(),
            threads,
            precision: self.precision,
            memory_format: None,
            power_mode: None,
            isa: String::new(),
            os: known.map_or_else(String::new, |(_, _, os)| (*os).to_owned()),
            beside: None,
            settings: Vec::new(),
            host: None,
        }
    }
}

/// Threads of a set of cores, one each: `1large2med` has 3.
fn threads(cores: &str) -> Option<usize> {
    let (mut rest, mut sum) = (cores, 0usize);
    while !rest.is_empty() {
        let (count, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let end = after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len());
        sum = sum.checked_add(count.parse().ok().filter(|n| (1..=1024).contains(n))?)?;
        rest = after.get(end..).filter(|_| end > 0)?;
    }
    (sum > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_added_up() {
        for (cores, sum) in [
            ("1large", Some(1)),
            ("1large2med", Some(3)),
            ("4small", Some(4)),
            ("", None),
            ("large", None),
            ("2", None),
            ("0large", None),
        ] {
            assert_eq!(threads(cores), sum, "{cores}");
        }
        assert_eq!(threads("99999999999999999999large"), None);
    }

    #[test]
    fn names_of_files_tell_what_they_hold() {
        let none = FileFacts::default();
        let cases = [
            ("tflite_cnn_real_ops_gpu.csv", Framework::TfLite, Family::Cnn, false),
            ("torch_vit_synthetic_ops_cpu_quant.csv", Framework::TorchMobile, Family::Vit, true),
            ("tflite_nas_e2e.csv", Framework::TfLite, Family::Cnn, true),
            ("torch_transformer_e2e.csv", Framework::TorchMobile, Family::Vit, false),
        ];
        for (name, framework, family, synthetic) in cases {
            assert_eq!(
                Collection::of(Path::new(name), &none).ok(),
                Some(Collection { framework, family, synthetic }),
                "{name}"
            );
        }
        let phones = Path::new("data/cnn_phones.csv");
        assert!(
            Collection::of(phones, &none).is_err_and(|e| e.to_string().contains("the framework"))
        );
        let said = FileFacts { framework: Some(Framework::TfLite), synthetic: true, ..none };
        assert_eq!(
            Collection::of(phones, &said).map(|c| (c.framework, c.synthetic)).ok(),
            Some((Framework::TfLite, true))
        );
    }

    #[test]
    fn a_setting_names_device_and_cores() {
        let collection =
            Collection { framework: Framework::TfLite, family: Family::Vit, synthetic: false };
        let id = |cores: &str, precision: &str| {
            Setting::new("pixel4", cores, precision).map(|s| s.environment(collection).id())
        };
        assert!(
            id("1large1med", "quant")
                .is_ok_and(|id| id.starts_with("pixel4-1large1med-tflite-2.15.0-cpu-2t-i8-"))
        );
        assert!(
            id("gpu", "float").is_ok_and(|id| id.starts_with("pixel4-tflite-2.15.0-gpu-1t-f16-"))
        );
        assert!(id("gpu", "double").is_err() && id("big", "float").is_err());
    }
}
