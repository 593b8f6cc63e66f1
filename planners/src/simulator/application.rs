//! [`Application`]: a program that decides frame by frame what is done, from what it has seen: a
//! scheduler under test.

use super::Task;

/// Decides what the streams with [`super::Source::Application`] do. Times are ns since the start.
pub trait Application {
    /// When the next frame of a stream begins, asked whenever the one before it is done; `None`:
    /// never.
    fn next(&mut self, stream: usize, now_ns: u64) -> Option<u64>;

    /// What is done with the frame that begins now: steps one after the other, the tasks of one at
    /// the same time. Tasks for processors that are not there are left out.
    fn begin(&mut self, stream: usize, now_ns: u64) -> Vec<Vec<Task>>;

    /// A task is done; it ran for so long.
    fn task_done(&mut self, stream: usize, task: &Task, took_ns: u64);

    /// A frame that was captured then is done now.
    fn frame_done(&mut self, stream: usize, captured_ns: u64, now_ns: u64);
}
