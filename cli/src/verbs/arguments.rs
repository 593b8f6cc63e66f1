//! Parses the command line, twice: clap waives `requires = X` where X conflicts with an argument
//! that is given, and the argument that needs X would have no effect then. The second time there are
//! no conflicts, so nothing is waived.

use super::Cli;
use clap::{Command, CommandFactory, Error, FromArgMatches, builder::Resettable};
use std::ffi::OsString;

/// Parses a command line.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let matches = Cli::command().try_get_matches_from(&words)?;
    without_conflicts(Cli::command()).try_get_matches_from(&words)?;
    Cli::from_arg_matches(&matches)
}

/// The same commands, whose arguments neither exclude each other nor are required by themselves.
fn without_conflicts(command: Command) -> Command {
    let groups: Vec<_> = command.get_groups().map(|group| group.get_id().clone()).collect();
    let command = groups.into_iter().fold(command, |command, group| {
        command.mut_group(group, |group| {
            group.multiple(true).required(false).conflicts_with(Resettable::Reset)
        })
    });
    command
        .mut_args(|argument| argument.required(false).conflicts_with(Resettable::Reset))
        .mut_subcommands(without_conflicts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    fn parsed(line: &str) -> Result<Cli, Error> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_shell_has_a_completion_script() {
        for shell in clap_complete::Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "vitempo", &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("refine"), "{shell}");
        }
    }

    #[test]
    fn an_argument_is_refused_without_the_one_it_needs() {
        let predict = "vitempo predict m.onnx --bundle b";
        for (line, missing) in [
            (format!("{predict} --measured data"), "--sizes"),
            (format!("{predict} --measured data --size 128"), "--sizes"),
            (format!("{predict} --measured data --breakdown"), "--sizes"),
            (format!("{predict} --measured data --compare"), "--sizes"),
            (format!("{predict} --measured data --explain n"), "--sizes"),
            ("vitempo profile m --out d --beside-cores 1 --remote ssh".to_owned(), "--beside"),
            ("vitempo profile m --out d --remote-tries 3".to_owned(), "--remote"),
            ("vitempo search --bundle b --library l".to_owned(), "--verify"),
            ("vitempo search --bundle b --no-weights".to_owned(), "--out"),
        ] {
            let error = parsed(&line).expect_err(&line);
            assert_eq!(error.kind(), clap::error::ErrorKind::MissingRequiredArgument, "{line}");
            assert!(error.to_string().contains(missing), "{line}: {error}");
        }
        for line in [
            format!("{predict} --measured data --sizes 128"),
            format!("{predict} --size 128 --breakdown"),
            "vitempo profile m --out d --remote ssh --remote-tries 3".to_owned(),
        ] {
            assert!(parsed(&line).is_ok(), "{line}");
        }
    }
}
