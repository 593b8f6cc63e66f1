//! Hints for errors of zoos.

use crate::verbs::error::{CliError, io_error};
use vitempo::planners::stitch::CutError;
use vitempo::zoo::ZooError;

impl From<ZooError> for CliError {
    fn from(error: ZooError) -> Self {
        let error = match error {
            ZooError::About { what, source } => return Self::from(*source).about(what),
            other => other,
        };
        let hint = match &error {
            ZooError::Io { action, path, source } => return io_error(action, path, source),
            ZooError::Internal(_) => return Self::ours(error),
            ZooError::CutsOfSeveral(count) => {
                return Self::user(format!("--cut names tensors of one model, there are {count}"))
                    .hint("make their variants one by one");
            }
            ZooError::Positions { path, task, named, positions } => {
                return Self::user(format!(
                    "{}: task `{task}`: --variants names {named}, there are {positions} positions",
                    path.display()
                ));
            }
            ZooError::NoTasksFile { .. } => "`vitempo zoo make` writes one".to_owned(),
            ZooError::UnknownTask { known, .. } => format!("it has {}", known.join(", ")),
            ZooError::SeveralTasks { .. } => "say which with --task NAME".to_owned(),
            ZooError::UnknownVariant { known, .. } => format!("there are {}", known.join(", ")),
            ZooError::TaskCut { source, .. } if matches!(**source, CutError::TooFew { .. }) => {
                "make variants that agree between blocks with `vitempo zoo make`, or cut into \
                fewer subgraphs (positions)"
                    .to_owned()
            }
            ZooError::TaskCut { .. } => {
                "cuts = [...] names tensors that every variant has, and through which alone \
                everything goes"
                    .to_owned()
            }
            ZooError::Twice { .. } => "its files would overwrite each other".to_owned(),
            ZooError::TooMany { .. } => "take fewer variants".to_owned(),
            ZooError::Array { .. } => "write it with numpy.save(), in C order".to_owned(),
            ZooError::UnknownEngine(_) => "rten is always here".to_owned(),
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}
