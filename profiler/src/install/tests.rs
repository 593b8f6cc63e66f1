//! Installs wheels made for the test: afterwards the whole engine exists, or nothing.

#![allow(clippy::unwrap_used)]

use super::*;
use std::io::Write;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

const LIBRARY: &str = "engine/libs/libengine.so.1.2.3";
const FILE: &str = "engine-1.2.3-cp311-cp311-manylinux_2_28_x86_64.whl";
const FILES: &[(&str, &str)] = &[
    (LIBRARY, "library"),
    ("engine/libs/libneighbour.so", "neighbour"),
    ("engine/__init__.py", "python"),
    ("engine-1.2.3.dist-info/licenses/LICENSE", "licence"),
];

fn archive(path: &Path, files: &[(&str, &str)]) {
    let mut zip = ZipWriter::new(std::fs::File::create(path).unwrap());
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, content) in files {
        zip.start_file(*name, options).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
}

/// A folder with one wheel in it, its pin, and an empty folder for engines.
struct Bench {
    folder: tempfile::TempDir,
    wheel: PathBuf,
    sha256: String,
    size_bytes: u64,
}

impl Bench {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join(FILE);
        archive(&wheel, files);
        let (sha256, size_bytes) =
            (wheel::digest(&wheel).unwrap(), wheel.metadata().unwrap().len());
        Self { folder, wheel, sha256, size_bytes }
    }

    fn engines(&self) -> PathBuf {
        self.folder.path().join("home/engines")
    }

    fn install_from(&self, source: &Source) -> Result<Installed, InstallError> {
        let wheels = [Wheel { file: FILE, size_bytes: self.size_bytes, sha256: &self.sha256 }];
        let keep = &["engine/libs/libneighbour.so"];
        let engine = Engine {
            name: "engine",
            version: "1.2.3",
            library: "engine/libs/libengine.so*",
            keep,
            notice: None,
            platforms: &[],
        };
        install(&engine, &wheels, &self.engines(), &|| Ok(source.clone()), &mut |_| {})
    }

    fn install(&self) -> Result<Installed, InstallError> {
        self.install_from(&Source::Files(vec![self.wheel.clone()]))
    }

    /// That it fails with these words and leaves nothing behind.
    fn refuses(&self, source: &Source, words: &[&str]) {
        let error = self.install_from(source).unwrap_err().to_string();
        assert!(words.iter().all(|w| error.contains(w)), "{error}");
        assert_eq!(names(&self.engines()), [".lock"], "{error}");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_needed_is_installed_once() {
    let bench = Bench::with(FILES);
    let first = bench.install().unwrap();
    assert_eq!((first.files, first.size_bytes, first.already_there), (3, 23, false));
    assert_eq!(std::fs::read_to_string(&first.library).unwrap(), "library");
    assert!(
        first.folder.join("engine/libs/libneighbour.so").is_file()
            && first.folder.join("engine-1.2.3.dist-info/licenses/LICENSE").is_file()
    );
    assert!(!first.folder.join("engine/__init__.py").exists());
    assert_eq!(names(&bench.engines()), [".lock", "engine-1.2.3"]);
    // There already: the wheel is not even looked at.
    let again = bench.install_from(&Source::Files(vec!["/nonexistent.whl".into()])).unwrap();
    assert_eq!(again, Installed { already_there: true, ..first });
}

#[test]
fn a_renamed_wheel_is_known_by_its_digest() {
    let bench = Bench::with(FILES);
    let renamed = bench.folder.path().join("downloaded (1).whl");
    std::fs::rename(&bench.wheel, &renamed).unwrap();
    assert!(bench.install_from(&Source::Files(vec![renamed])).is_ok());
}

#[test]
fn wheels_that_are_not_the_pinned_one_are_refused() {
    let bench = Bench::with(FILES);
    let whole = std::fs::read(&bench.wheel).unwrap();
    let source = Source::Files(vec![bench.wheel.clone()]);
    std::fs::write(&bench.wheel, &whole[..whole.len() / 2]).unwrap();
    bench.refuses(&source, &[FILE, "bytes"]);
    let mut changed = whole.clone();
    changed[40] ^= 1;
    std::fs::write(&bench.wheel, &changed).unwrap();
    bench.refuses(&source, &[FILE, "SHA-256", &bench.sha256]);
    let other = bench.folder.path().join("other.whl");
    std::fs::write(&other, b"other").unwrap();
    bench.refuses(&Source::Files(vec![other]), &["other.whl", "none of the wheels", FILE]);
    bench.refuses(&Source::Files(Vec::new()), &["needs", FILE]);
    bench.refuses(&Source::Files(vec![bench.folder.path().join("absent.whl")]), &["absent.whl"]);
}

#[test]
fn archives_that_are_no_good_are_refused() {
    for (files, words) in [
        (&[(LIBRARY, "library"), ("../evil.so", "evil")][..], &["../evil.so", "leads out"][..]),
        (&[(LIBRARY, "library"), ("/tmp/evil.so", "evil")], &["/tmp/evil.so", "leads out"]),
        (&[("engine/__init__.py", "python")], &["lack", "libengine.so"]),
    ] {
        let bench = Bench::with(files);
        bench.refuses(&Source::Files(vec![bench.wheel.clone()]), words);
    }
    let text = Bench::with(FILES);
    std::fs::write(&text.wheel, b"not an archive").unwrap();
    let text = Bench { size_bytes: 14, sha256: wheel::digest(&text.wheel).unwrap(), ..text };
    text.refuses(&Source::Files(vec![text.wheel.clone()]), &["no ZIP archive"]);
}

#[test]
fn a_link_in_an_archive_is_refused() {
    let bench = Bench::with(FILES);
    let mut zip = ZipWriter::new(std::fs::File::create(&bench.wheel).unwrap());
    zip.add_symlink(LIBRARY, "/etc/passwd", SimpleFileOptions::default()).unwrap();
    zip.finish().unwrap();
    let linked = Bench {
        size_bytes: bench.wheel.metadata().unwrap().len(),
        sha256: wheel::digest(&bench.wheel).unwrap(),
        ..bench
    };
    linked.refuses(&Source::Files(vec![linked.wheel.clone()]), &[LIBRARY, "link"]);
}

#[test]
fn what_an_interruption_left_is_cleared_away() {
    let bench = Bench::with(FILES);
    let left = bench.engines().join(".installing-abc/unpacked/engine");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("half.so"), b"ha").unwrap();
    bench.install().unwrap();
    assert_eq!(names(&bench.engines()), [".lock", "engine-1.2.3"]);
}

#[test]
fn a_damaged_engine_is_installed_again() {
    let bench = Bench::with(FILES);
    let first = bench.install().unwrap();
    for damage in [&|path: &Path| std::fs::remove_file(path).unwrap(), &|path: &Path| {
        std::fs::write(path, b"lib").unwrap();
    }] as [&dyn Fn(&Path); 2]
    {
        damage(&first.library);
        let again = bench.install().unwrap();
        assert!(
            !again.already_there && std::fs::read_to_string(&again.library).unwrap() == "library"
        );
    }
    std::fs::remove_file(first.folder.join(MANIFEST)).unwrap();
    assert!(!bench.install().unwrap().already_there);
    assert_eq!(names(&bench.engines()), [".lock", "engine-1.2.3"]);
}

#[test]
fn names_and_platforms_that_are_not_there_are_told() {
    let unknown = by_name("caffe").unwrap_err().to_string();
    assert!(unknown.contains("`caffe`") && unknown.contains("openvino"), "{unknown}");
    let platform = by_name("openvino").unwrap().wheels("plan9", "mips").unwrap_err();
    assert!(
        platform.to_string().contains("plan9 on mips") && platform.hint().is_some(),
        "{platform}"
    );
}

/// A script in Python's place that does what pip would: it puts a file into the folder after
/// `--dest`, or complains.
#[cfg(unix)]
fn python(bench: &Bench, body: &str) -> Source {
    use std::os::unix::fs::PermissionsExt;
    let path = bench.folder.path().join("python");
    std::fs::write(&path, format!("#!/bin/sh\nfor argument; do last=$argument; done\n{body}\n"))
        .unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Source::Pip(path)
}

#[cfg(unix)]
#[test]
fn pip_brings_the_wheel_or_says_why_not() {
    let bench = Bench::with(FILES);
    let complains = python(&bench, "echo 'ERROR: No matching distribution found' >&2; exit 1");
    bench.refuses(&complains, &[FILE, "No matching distribution"]);
    bench.refuses(&python(&bench, "exit 0"), &["another file"]);
    bench.refuses(&Source::Pip("/nonexistent/python".into()), &["/nonexistent/python"]);
    bench.refuses(&python(&bench, &format!("echo tampered > \"$last/{FILE}\"")), &["bytes"]);
    let brings = python(&bench, &format!("cp '{}' \"$last\"", bench.wheel.display()));
    assert!(!bench.install_from(&brings).unwrap().already_there);
}
