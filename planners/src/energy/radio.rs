//! [`Radio`]: the phases of a wireless interface that sends one frame and waits for its result.
//!
//! promotion (only from idle) -> transmission -> tail, for a fixed time after the last data ->
//! idle. The answer is small: it takes no time of its own, and a tail begins with it.

use serde::{Deserialize, Serialize};

/// Times and powers of a wireless interface, above the base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Radio {
    /// Time from idle to the first byte, s.
    pub promotion_s: f64,
    /// Power in it, W.
    pub promotion_w: f64,
    /// Power while sending, the processor's part included, W.
    pub transmit_w: f64,
    /// Time that the interface stays awake after data, s.
    pub tail_s: f64,
    /// Power in it, W.
    pub tail_w: f64,
    /// Power while idle, W.
    pub idle_w: f64,
}

impl Radio {
    /// The promotion that data needs after a time without any, s.
    #[must_use]
    pub fn promotion_after_s(&self, quiet_s: f64) -> f64 {
        if quiet_s > self.tail_s { self.promotion_s } else { 0.0 }
    }

    /// Energy of a time without data, J: the tail, then idle.
    #[must_use]
    pub fn quiet_j(&self, seconds: f64) -> f64 {
        let tail_s = seconds.min(self.tail_s);
        tail_s * self.tail_w + (seconds - tail_s) * self.idle_w
    }

    /// The frames that follow each other in turn, of those that `frame` makes with a promotion of
    /// so many seconds: promotion and quiet time depend on each other. One frame that is always the
    /// same; or two, a promoted one first, where only a frame without promotion is quiet for longer
    /// than the tail, so that each frame makes the next one the other kind.
    pub(super) fn frames<F>(
        &self,
        frame: impl Fn(f64) -> F,
        quiet_s: impl Fn(&F) -> f64,
    ) -> Vec<F> {
        let awake = frame(0.0);
        let promotion_s = self.promotion_after_s(quiet_s(&awake));
        if promotion_s == 0.0 {
            return vec![awake];
        }
        let promoted = frame(promotion_s);
        match self.promotion_after_s(quiet_s(&promoted)) > 0.0 {
            true => vec![promoted],
            false => vec![promoted, awake],
        }
    }

    /// Energy of a frame, J: `promotion_s` of promotion, `sending_s` of transmission, `answer_s`
    /// until the answer, `quiet_s` from there to the next frame's promotion or transmission.
    #[must_use]
    pub fn frame_j(&self, promotion_s: f64, sending_s: f64, answer_s: f64, quiet_s: f64) -> f64 {
        promotion_s * self.promotion_w
            + sending_s * self.transmit_w
            + self.quiet_j(answer_s)
            + self.quiet_j(quiet_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RADIO: Radio = Radio {
        promotion_s: 0.1,
        promotion_w: 2.0,
        transmit_w: 3.0,
        tail_s: 0.25,
        tail_w: 1.0,
        idle_w: 0.1,
    };

    #[test]
    fn a_radio_stays_awake_for_its_tail_and_has_to_be_woken_after_it() {
        assert!((RADIO.quiet_j(0.2) - 0.2).abs() < 1e-12);
        assert!((RADIO.quiet_j(1.25) - 0.35).abs() < 1e-12);
        assert_eq!((RADIO.promotion_after_s(0.25), RADIO.promotion_after_s(0.26)), (0.0, 0.1));
        // Awake throughout: 0.5 x 3 + 0.2 + 0.2; then with a promotion and an idle second.
        assert!((RADIO.frame_j(0.0, 0.5, 0.2, 0.2) - 1.9).abs() < 1e-12);
        assert!((RADIO.frame_j(0.1, 0.5, 0.2, 1.25) - (0.2 + 1.5 + 0.2 + 0.35)).abs() < 1e-12);
    }

    #[test]
    fn frames_alternate_where_a_promotion_leaves_no_pause_to_fall_asleep_in() {
        // A frame is a promotion and the quiet time that is left after it.
        let promotions = |quiet_s: f64| -> Vec<f64> {
            let frames = RADIO.frames(|promotion_s| (promotion_s, quiet_s - promotion_s), |f| f.1);
            frames.into_iter().map(|(promotion_s, _)| promotion_s).collect()
        };
        assert_eq!(promotions(0.25), [0.0]);
        assert_eq!(promotions(0.30), [0.1, 0.0]);
        assert_eq!(promotions(0.36), [0.1]);
    }
}
