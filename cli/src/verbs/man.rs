//! `vitempo man`: manual pages, written from the same definitions as `--help`.

use super::{
    Cli,
    error::{CliResult, io_error},
    progress,
};
use clap::CommandFactory;
use std::{fs, path::PathBuf};

/// Writes manual pages, one for each verb
///
/// Example: vitempo man --out target/man
#[derive(clap::Args, Debug)]
pub struct ManArgs {
    /// Folder to write to
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

pub fn run(args: &ManArgs) -> CliResult {
    fs::create_dir_all(&args.out).map_err(|e| io_error("make folder", &args.out, &e))?;
    clap_mangen::generate_to(Cli::command(), &args.out)
        .map_err(|e| io_error("write manual pages to", &args.out, &e))?;
    progress::say(format!("manual pages in {}", args.out.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_verb_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("man");
        run(&ManArgs { out: out.clone() }).expect("manual pages");
        for verb in Cli::command().get_subcommands() {
            let page = out.join(format!("vitempo-{}.1", verb.get_name()));
            assert_eq!(page.exists(), !verb.is_hide_set(), "{}", page.display());
        }
        let page = fs::read_to_string(out.join("vitempo-dataset-inspect.1")).expect("a page");
        assert!(page.contains(".TH vitempo-dataset-inspect 1"), "{page}");
    }
}
