//! Refuses what is given twice: one of the two would have no effect.

use super::super::error::{CliError, CliResult};
use std::fmt::Display;

/// Refuses the first value that a flag has twice. Of `NAME=VALUE`, the values are the names.
pub fn refuse_twice<T: PartialEq + Display>(flag: &str, values: &[T]) -> CliResult {
    let is_again = |(index, value): &(usize, &T)| values[..*index].contains(value);
    match values.iter().enumerate().find(is_again) {
        Some((_, value)) => Err(CliError::user(format!("{flag}: `{value}` is given twice"))
            .hint("leave one of them out")),
        None => Ok(()),
    }
}

/// The same for what is said of one task, or of all tasks.
pub fn refuse_task_twice<'a>(
    flag: &str,
    tasks: impl Iterator<Item = Option<&'a str>>,
) -> CliResult {
    refuse_twice(flag, &tasks.map(|task| task.unwrap_or("all tasks")).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_that_is_given_twice_is_named() {
        assert!(refuse_twice("--input", &[1, 2, 3]).is_ok());
        assert!(refuse_task_twice("--slo", [None, Some("a"), Some("b")].into_iter()).is_ok());
        let message = |refused: CliResult| format!("{:?}", refused.expect_err("refused"));
        assert!(message(refuse_twice("--input", &[1, 2, 1])).contains("--input: `1` is given"));
        let tasks = [None, Some("a"), None];
        let refused = refuse_task_twice("--slo", tasks.into_iter());
        assert!(message(refused).contains("--slo: `all tasks` is given twice"));
    }
}
