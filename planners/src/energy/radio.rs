//! [`Radio`]: the phases of a wireless interface that sends one frame and waits for its result.
//!
//! promotion (only from idle) -> transmission -> tail, for a fixed time after the last data ->
//! idle. The answer is small: it takes no time of its own, and a tail begins with it.

use serde::{Deserialize, Serialize};

/// Promotion and pause depend on each other: passes until both are settled.
pub(super) const PASSES: usize = 4;

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

    /// Energy of frames that follow each other, J each: `sending_s` of transmission, `answer_s`
    /// until the answer, `quiet_s` from there to the next transmission.
    #[must_use]
    pub fn frame_j(&self, sending_s: f64, answer_s: f64, quiet_s: f64) -> f64 {
        self.promotion_after_s(quiet_s) * self.promotion_w
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
        assert!((RADIO.frame_j(0.5, 0.2, 0.2) - 1.9).abs() < 1e-12);
        assert!((RADIO.frame_j(0.5, 0.2, 1.25) - (0.2 + 1.5 + 0.2 + 0.35)).abs() < 1e-12);
    }
}
