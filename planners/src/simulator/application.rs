//! [`Application`]: a program that chooses the work of each frame from the events so far, such as a
//! scheduler under test.

use super::Task;

/// Chooses the work of streams with [`super::Source::Application`]. Times are ns since the start.
pub trait Application {
    /// The start of the next frame of a stream; called whenever the frame before it is done.
    /// `None`: there is no further frame.
    fn next(&mut self, stream: usize, now_ns: u64) -> Option<u64>;

    /// The work of the frame that begins now: steps one after the other, the tasks of one step at
    /// the same time. Tasks for processors that do not exist are ignored.
    fn begin(&mut self, stream: usize, now_ns: u64) -> Vec<Vec<Task>>;

    /// Called when a task is done, with its run time.
    fn task_done(&mut self, stream: usize, task: &Task, took_ns: u64);

    /// Called when a frame is done, with the time of its capture.
    fn frame_done(&mut self, stream: usize, captured_ns: u64, now_ns: u64);
}
