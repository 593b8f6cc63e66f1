//! RAPL through Linux's powercap files: one counter per processor package, in uJ, that starts again
//! from 0 after `max_energy_range_uj`.

use super::{NoCounter, Reading};
use std::{
    fs,
    path::{Path, PathBuf},
};

pub(super) const FOLDER: &str = "/sys/class/powercap";

/// The packages of this machine.
#[derive(Debug)]
pub(super) struct Packages(Vec<Package>);

#[derive(Debug)]
struct Package {
    energy: PathBuf,
    range_uj: u64,
}

fn number(path: &Path) -> Result<u64, NoCounter> {
    let refuse = |reason: String| NoCounter(format!("{} cannot be read: {reason}", path.display()));
    let text = fs::read_to_string(path).map_err(|e| refuse(e.to_string()))?;
    text.trim().parse().map_err(|_| refuse(format!("`{}` is not a number", text.trim())))
}

impl Packages {
    /// The zones called `package-*`; others are parts of them, or count them again.
    pub(super) fn find(folder: &Path) -> Result<Self, NoCounter> {
        let none = || {
            NoCounter(format!(
                "this machine shows no energy counters of its processor (no package in {})",
                folder.display()
            ))
        };
        let zones = fs::read_dir(folder).map_err(|_| none())?.flatten().map(|entry| entry.path());
        let is_package = |zone: &PathBuf| {
            fs::read_to_string(zone.join("name")).is_ok_and(|name| name.starts_with("package"))
        };
        let mut zones: Vec<PathBuf> = zones.filter(is_package).collect();
        zones.sort();
        if zones.is_empty() {
            return Err(none());
        }
        let package = |zone: PathBuf| {
            Ok(Package {
                range_uj: number(&zone.join("max_energy_range_uj"))?,
                energy: zone.join("energy_uj"),
            })
        };
        let packages = Self(zones.into_iter().map(package).collect::<Result<_, NoCounter>>()?);
        packages.0.iter().try_for_each(|package| number(&package.energy).map(drop))?;
        Ok(packages)
    }

    pub(super) fn read(&self) -> Option<Reading> {
        self.0
            .iter()
            .map(|package| number(&package.energy).ok())
            .collect::<Option<_>>()
            .map(Reading)
    }

    /// The sum over packages, each at most once around.
    pub(super) fn between_uj(&self, start: &Reading, end: &Reading) -> Option<u64> {
        let pairs = self.0.iter().zip(start.0.iter().zip(&end.0));
        let drawn = |(package, (&from, &to)): (&Package, (&u64, &u64))| {
            if to >= from {
                to - from
            } else {
                (package.range_uj - from.min(package.range_uj)) + to
            }
        };
        (start.0.len() == self.0.len() && end.0.len() == self.0.len())
            .then(|| pairs.map(drawn).sum())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn zone(folder: &Path, zone: &str, name: &str, energy_uj: u64) {
        let zone = folder.join(zone);
        fs::create_dir_all(&zone).unwrap();
        for (file, text) in [
            ("name", name.to_owned()),
            ("energy_uj", format!("{energy_uj}\n")),
            ("max_energy_range_uj", "1000\n".to_owned()),
        ] {
            fs::write(zone.join(file), text).unwrap();
        }
    }

    #[test]
    fn packages_are_added_up_and_counters_go_round() {
        let folder = tempfile::tempdir().unwrap();
        for (name, what, energy_uj) in [
            ("intel-rapl:0", "package-0", 100),
            ("intel-rapl:1", "package-1", 990),
            ("intel-rapl:0:0", "core", 5),
            ("x", "psys", 7),
        ] {
            zone(folder.path(), name, what, energy_uj);
        }
        let packages = Packages::find(folder.path()).unwrap();
        let start = packages.read().unwrap();
        assert_eq!(start, Reading(vec![100, 990]));
        zone(folder.path(), "intel-rapl:0", "package-0", 150);
        zone(folder.path(), "intel-rapl:1", "package-1", 20);
        assert_eq!(packages.between_uj(&start, &packages.read().unwrap()), Some(50 + 30));
    }

    #[test]
    fn what_is_not_there_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let message =
            || Packages::find(folder.path()).map_or_else(|e| e.to_string(), |_| "found".to_owned());
        assert!(message().starts_with("this machine shows no energy counters"));
        zone(folder.path(), "intel-rapl:0", "package-0", 1);
        fs::write(folder.path().join("intel-rapl:0/energy_uj"), "secret").unwrap();
        assert!(message().contains("energy_uj cannot be read: `secret` is not a number"));
    }
}
