//! [`Sight`]: what a simulated system sees and shows, in place of the regions of a trace.

/// Sees for a system whose times are simulated: a network on an engine, say.
pub trait Sight {
    /// A full frame is done: the camera frame that it was captured as, and its rows and columns of
    /// patches. It is shown by the camera frames that begin from now on.
    fn full_frame(&mut self, frame: usize, patches: [usize; 2]);

    /// A camera frame begins: at most `most` cycles fit; returns how many it takes. Camera frames for
    /// which there is no time are left out.
    fn frame(&mut self, frame: usize, most: u64) -> u64;
}
