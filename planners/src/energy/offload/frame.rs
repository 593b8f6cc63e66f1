//! [`Frame`]: time and energy of one detected frame under given settings.
//!
//! The application takes the latest image of the camera, converts it, runs the network here or
//! there, and draws the result; then it takes the latest image again. From one detected frame to
//! the next it takes max(latency, 1 / camera rate); base and camera draw power all that time.

use super::{OffloadModel, Place, Sized};
use crate::energy::{CameraUse, Cycles, Demand, Governor, Phase, Processor, Span, Step};
use serde::{Deserialize, Serialize};

/// Frames simulated under a governor before those that count, and those.
const WARM_UP: usize = 10;
const COUNTED: usize = 20;

/// What sets the frequency of the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// A fixed frequency, GHz.
    Fixed(f64),
    /// A governor.
    Governed(Governor),
}

/// Everything that one frame depends on beside the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Where the network runs.
    pub place: Place,
    /// The network.
    pub network: Sized,
    /// The frequency.
    pub clock: Clock,
    /// The camera.
    pub camera: CameraUse,
    /// Work of converting the image.
    pub conversion: Cycles,
}

/// A time at one frequency within one phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// Number of the frame, from 0.
    pub frame: usize,
    /// Time since the launch, s.
    pub start_s: f64,
    /// Its length, s.
    pub seconds: f64,
    /// The phase.
    pub phase: &'static str,
    /// The frequency, GHz.
    pub ghz: f64,
    /// Power of the device, W.
    pub watts: f64,
}

/// Energy of one detected frame by part, J.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyParts {
    /// Converting the image, drawing the result and other work.
    pub conversion_j: f64,
    /// The network on the device.
    pub inference_j: f64,
    /// The wireless interface.
    pub radio_j: f64,
    /// Camera and preview.
    pub camera_j: f64,
    /// System and screen.
    pub base_j: f64,
}

/// One detected frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The phases, one after the other; powers are means above base and camera.
    pub phases: Vec<Phase>,
    /// Time from taking the image to the result, s.
    pub latency_s: f64,
    /// Time from one detected frame to the next, s.
    pub period_s: f64,
    /// Mean age of the image when it is taken, s.
    pub age_s: f64,
    /// Mean frequency, GHz.
    pub ghz: f64,
    /// Energy from one detected frame to the next.
    pub energy: EnergyParts,
    /// Share of the power of camera and preview that goes into frames that are detected.
    pub sampling_share: f64,
}

impl EnergyParts {
    /// Their sum, J.
    #[must_use]
    pub fn total_j(&self) -> f64 {
        self.conversion_j + self.inference_j + self.radio_j + self.camera_j + self.base_j
    }
}

impl Frame {
    /// Energy from one detected frame to the next, J.
    #[must_use]
    pub fn energy_j(&self) -> f64 {
        self.energy.total_j()
    }

    /// Mean power, W.
    #[must_use]
    pub fn mean_w(&self) -> f64 {
        self.energy_j() / self.period_s
    }
}

/// Phases in the order of a frame. "Others" are before and after the conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Others,
    Conversion,
    Inference,
    Promotion,
    Sending,
    Answer,
    Pause,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Others => "others",
            Self::Conversion => "conversion",
            Self::Inference => "inference",
            Self::Promotion => "promotion",
            Self::Sending => "transmission",
            Self::Answer => "waiting",
            Self::Pause => "pause",
        }
    }

    /// Whether the radio has nothing to send or to wait for.
    fn is_quiet(self) -> bool {
        matches!(self, Self::Others | Self::Conversion | Self::Pause)
    }
}

impl OffloadModel {
    /// One frame. A governor without [`OffloadModel::processor`] runs at no frequency: callers
    /// check that first.
    #[must_use]
    pub fn frame(&self, with: &Use) -> Frame {
        self.account(with, &self.settled(with))
    }

    /// What the device does from the launch of the application on, frame by frame: the frequency
    /// starts at the lowest, and a governor moves it.
    #[must_use]
    pub fn timeline(&self, with: &Use, frames: usize) -> Vec<Moment> {
        let kinds = self.settled(with);
        let per_frame = kinds.first().map_or(1, |run| run.parts.len());
        let turns = frames.div_ceil(kinds.len());
        let parts: Vec<(Part, Demand)> = kinds.iter().flat_map(|run| run.parts.clone()).collect();
        let mut spans = self.spans(with.clock, &parts, turns);
        for span in &mut spans {
            span.frame = span.frame * kinds.len() + span.step / per_frame;
        }
        spans.retain(|span| span.frame < frames);
        let run = Run { parts, spans, frames };
        let answer_w = self.answer_w(&run);
        let mut at_s = 0.0;
        // The radio is idle at the launch.
        let mut quiet_s = f64::INFINITY;
        let mut moments = Vec::new();
        for span in &run.spans {
            let part = run.parts[span.step].0;
            let watts = self.watts(part, span.ghz, answer_w)
                + self.base.watts(span.ghz)
                + self.camera.watts(span.ghz, with.camera);
            for (seconds, radio_w) in self.radio_over(with.place, part, span.seconds, quiet_s) {
                moments.push(Moment {
                    frame: span.frame,
                    start_s: at_s,
                    seconds,
                    phase: part.name(),
                    ghz: span.ghz,
                    watts: watts + radio_w,
                });
                at_s += seconds;
            }
            quiet_s = if part.is_quiet() { quiet_s + span.seconds } else { 0.0 };
        }
        moments
    }

    /// The power (W) of the radio's tail and idle over `seconds` of a part that begins `quiet_s`
    /// after the last data, cut where the tail ends: times and powers.
    fn radio_over(
        &self,
        place: Place,
        part: Part,
        seconds: f64,
        quiet_s: f64,
    ) -> impl Iterator<Item = (f64, f64)> {
        let radio = self.radio;
        let cut = match place == Place::Remote && part.is_quiet() {
            true => {
                let tail_s = (radio.tail_s - quiet_s).clamp(0.0, seconds);
                [(tail_s, radio.tail_w), (seconds - tail_s, radio.idle_w)]
            }
            false => [(seconds, 0.0), (0.0, 0.0)],
        };
        cut.into_iter().filter(|(seconds, _)| *seconds > 0.0)
    }

    /// The frames that follow each other in turn ([`Radio::frames`](crate::energy::Radio::frames)).
    fn settled(&self, with: &Use) -> Vec<Run> {
        let frame = |promotion_s: f64| self.run(with, promotion_s);
        match with.place {
            Place::Local => vec![frame(0.0)],
            Place::Remote => self.radio.frames(frame, |run| run.seconds(&Part::is_quiet)),
        }
    }

    /// The parts of a frame, and the frequency over them. Each frame ends with the pause until the
    /// camera's next image.
    fn run(&self, with: &Use, promotion_s: f64) -> Run {
        let others = (Part::Others, Demand::Wait(0.5 * self.others_s));
        let mut parts = vec![others, (Part::Conversion, Demand::Work(with.conversion)), others];
        match with.place {
            Place::Local => parts.push((Part::Inference, Demand::Work(with.network.inference))),
            Place::Remote => {
                let sending_s = with.network.sent_bytes as f64 / self.bandwidth_bytes_per_s;
                let answer_s = self.round_trip_s + with.network.inference.seconds(1.0);
                parts.extend([
                    (Part::Promotion, Demand::Wait(promotion_s)),
                    (Part::Sending, Demand::Wait(sending_s)),
                    (Part::Answer, Demand::Wait(answer_s)),
                ]);
            }
        }
        parts.push((Part::Pause, Demand::Until(1.0 / with.camera.fps)));
        let mut spans = self.spans(with.clock, &parts, WARM_UP + COUNTED);
        spans.retain(|span| span.frame >= WARM_UP);
        Run { parts, spans, frames: COUNTED }
    }

    /// The frequency over frames that follow each other.
    fn spans(&self, clock: Clock, parts: &[(Part, Demand)], frames: usize) -> Vec<Span> {
        match (clock, &self.processor) {
            (Clock::Governed(governor), Some(processor)) => {
                governed(processor, governor, parts, frames)
            }
            (Clock::Governed(_), None) => Vec::new(),
            (Clock::Fixed(ghz), _) => fixed(ghz, parts, frames),
        }
    }

    /// Mean power of the radio while an answer is waited for, W.
    fn answer_w(&self, run: &Run) -> f64 {
        let answer_s = run.seconds(&|part| part == Part::Answer);
        if answer_s > 0.0 { self.radio.quiet_j(answer_s) / answer_s } else { 0.0 }
    }

    /// Power of a part above base and camera, W.
    fn watts(&self, part: Part, ghz: f64, answer_w: f64) -> f64 {
        match part {
            Part::Others | Part::Conversion => self.conversion_power.watts(ghz),
            Part::Inference => self.inference_power.watts(ghz),
            Part::Promotion => self.radio.promotion_w,
            Part::Sending => self.radio.transmit_w,
            Part::Answer => answer_w,
            Part::Pause => 0.0,
        }
    }

    /// Times and energies of what ran: means over the kinds of frames.
    fn account(&self, with: &Use, kinds: &[Run]) -> Frame {
        let share = 1.0 / kinds.len() as f64;
        let mut phases: Vec<(Part, f64, f64)> = Vec::new();
        let mut energy = EnergyParts::default();
        let (mut cycles, mut pause_s, mut age_s) = (0.0, 0.0, 0.0);
        for run in kinds {
            let answer_w = self.answer_w(run);
            for (part, seconds, ghz) in run.times() {
                let seconds = share * seconds;
                let joules = self.watts(part, ghz, answer_w) * seconds;
                energy.base_j += self.base.watts(ghz) * seconds;
                energy.camera_j += self.camera.watts(ghz, with.camera) * seconds;
                cycles += ghz * seconds;
                match phases.iter_mut().find(|(known, ..)| *known == part) {
                    Some(phase) => *phase = (part, phase.1 + seconds, phase.2 + joules),
                    None => phases.push((part, seconds, joules)),
                }
            }
            let paused_s = run.seconds(&|part| part == Part::Pause);
            pause_s += share * paused_s;
            age_s += share * run.unpaused() * 0.5 / with.camera.fps;
        }
        for &(part, _, joules) in &phases {
            match part {
                Part::Others | Part::Conversion => energy.conversion_j += joules,
                Part::Inference => energy.inference_j += joules,
                _ => energy.radio_j += joules,
            }
        }
        if with.place == Place::Remote {
            let quiet_j = |run: &Run| self.radio.quiet_j(run.seconds(&Part::is_quiet));
            energy.radio_j += share * kinds.iter().map(quiet_j).sum::<f64>();
        }
        let period_s: f64 = phases.iter().map(|(_, seconds, _)| seconds).sum();
        let phase = |(part, seconds, joules): (Part, f64, f64)| Phase {
            name: part.name().to_owned(),
            seconds,
            watts: joules / seconds,
        };
        Frame {
            latency_s: period_s - pause_s,
            period_s,
            age_s,
            ghz: cycles / period_s,
            sampling_share: self.camera.detected_j(with.camera) / energy.camera_j,
            energy,
            phases: phases
                .into_iter()
                .filter(|(part, seconds, _)| *part != Part::Pause && *seconds > 0.0)
                .map(phase)
                .collect(),
        }
    }
}

/// Parts of frames that ran, and at which frequency.
struct Run {
    parts: Vec<(Part, Demand)>,
    spans: Vec<Span>,
    /// How many frames the spans are.
    frames: usize,
}

impl Run {
    /// Part, mean time per frame (s), frequency (GHz), of each span.
    fn times(&self) -> impl Iterator<Item = (Part, f64, f64)> {
        let per_frame = 1.0 / self.frames as f64;
        self.spans.iter().map(move |s| (self.parts[s.step].0, s.seconds * per_frame, s.ghz))
    }

    /// Share of the frames that do not wait for the camera.
    fn unpaused(&self) -> f64 {
        let paused = |s: &&Span| self.parts[s.step].0 == Part::Pause && s.seconds > 0.0;
        let mut frames: Vec<usize> = self.spans.iter().filter(paused).map(|s| s.frame).collect();
        frames.dedup();
        1.0 - frames.len() as f64 / self.frames as f64
    }

    /// Mean time per frame in some parts, s.
    fn seconds(&self, of: &dyn Fn(Part) -> bool) -> f64 {
        self.times().filter(|(part, ..)| of(*part)).map(|(_, seconds, _)| seconds).sum()
    }
}

fn fixed(ghz: f64, parts: &[(Part, Demand)], frames: usize) -> Vec<Span> {
    let mut within_s = 0.0;
    let mut turn = Vec::new();
    for (step, (_, demand)) in parts.iter().enumerate() {
        let seconds = demand.after(within_s).seconds(ghz);
        within_s = if matches!(demand, Demand::Until(_)) { 0.0 } else { within_s + seconds };
        turn.push(Span { frame: 0, step, seconds, ghz });
    }
    (0..frames).flat_map(|frame| turn.iter().map(move |&span| Span { frame, ..span })).collect()
}

fn governed(
    processor: &Processor,
    governor: Governor,
    parts: &[(Part, Demand)],
    frames: usize,
) -> Vec<Span> {
    let loads = processor.loads;
    let step = |&(part, demand): &(Part, Demand)| Step {
        demand,
        load: match part {
            Part::Conversion => loads.conversion,
            Part::Inference => loads.inference,
            _ => loads.waiting,
        },
    };
    let steps: Vec<Step> = parts.iter().map(step).collect();
    processor.schedule(governor, &steps, frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::{Loads, Radio, offload::model::tests::model};

    fn with(place: Place, clock: Clock, fps: f64) -> Use {
        let model = model();
        Use {
            place,
            network: if place == Place::Local { model.local[1] } else { model.remote[0] },
            clock,
            camera: CameraUse { fps, preview: model.camera.preview, post_processing: true },
            conversion: model.conversion[0].cycles(model.camera.preview),
        }
    }

    #[test]
    fn a_local_frame_adds_up() {
        let frame = model().frame(&with(Place::Local, Clock::Fixed(2.0), 10.0));
        // 0.05 s of others, 1.03e9 cycles of conversion and 1e9 of inference at 2 GHz.
        let latency_s = 0.05 + 0.515 + 0.5;
        assert!((frame.latency_s - latency_s).abs() < 1e-9 && frame.period_s == frame.latency_s);
        assert_eq!((frame.age_s, frame.energy.radio_j), (0.05, 0.0));
        let busy_w = 0.35 * 2.0 + 0.12 * 8.0;
        assert!((frame.energy.inference_j - 0.5 * busy_w).abs() < 1e-9);
        assert!((frame.energy.camera_j - (1.6 + 0.8) * latency_s).abs() < 1e-9);
        assert!((frame.energy.base_j - 0.6 * latency_s).abs() < 1e-9);
        assert!((frame.sampling_share - 0.08 / (2.4 * latency_s)).abs() < 1e-9);
        let names: Vec<&str> = frame.phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["others", "conversion", "inference"]);
    }

    #[test]
    fn a_remote_frame_wakes_the_radio_and_lets_it_sleep() {
        let frame = model().frame(&with(Place::Remote, Clock::Fixed(2.0), 10.0));
        // Quiet for 0.565 s, longer than the tail: promoted; 25.6 kB at 1 MB/s; 0.24 s of answer.
        let expected = 0.08 * 0.2 + 0.0256 * 2.0 + 0.24 * 0.2 + (0.24 * 0.2 + 0.325 * 0.01);
        assert!((frame.energy.radio_j - expected).abs() < 1e-9, "{}", frame.energy.radio_j);
        assert!((frame.latency_s - (0.565 + 0.08 + 0.0256 + 0.24)).abs() < 1e-9);
        // A quick conversion leaves the radio awake.
        let quick = Use { conversion: Cycles(0.1), ..with(Place::Remote, Clock::Fixed(2.0), 10.0) };
        let names: Vec<String> = model().frame(&quick).phases.into_iter().map(|p| p.name).collect();
        assert!(!names.contains(&"promotion".to_owned()), "{names:?}");
    }

    #[test]
    fn frames_with_and_without_promotion_follow_each_other() {
        let mut model = model();
        model.radio = Radio {
            promotion_s: 0.4,
            promotion_w: 1.0,
            transmit_w: 1.0,
            tail_s: 0.5,
            tail_w: 0.1,
            idle_w: 0.0,
        };
        let conversion = Cycles(0.0);
        let with = Use { conversion, ..with(Place::Remote, Clock::Fixed(1.0), 1.0) };
        // Quiet for 0.7344 s, which needs a promotion; after one for 0.3344 s, which does not.
        let frame = model.frame(&with);
        let latency_s = 0.05 + 0.2 + 0.0256 + 0.24;
        assert!((frame.latency_s - latency_s).abs() < 1e-9, "{}", frame.latency_s);
        assert!((frame.period_s - 1.0).abs() < 1e-9 && frame.age_s == 0.0);
        let tail_s = (0.5 + 0.3344) / 2.0;
        let radio_j = 0.2 * 1.0 + 0.0256 * 1.0 + (0.24 + tail_s) * 0.1;
        assert!((frame.energy.radio_j - radio_j).abs() < 1e-9, "{}", frame.energy.radio_j);
        let moments = model.timeline(&with, 3);
        let promoted: Vec<usize> = moments
            .iter()
            .filter(|m| m.phase == "promotion" && m.seconds > 0.0)
            .map(|m| m.frame)
            .collect();
        assert_eq!(promoted, [0, 2]);
        let last = moments.last().expect("a moment");
        assert!((last.start_s + last.seconds - 3.0).abs() < 1e-9 && last.frame == 2);
    }

    #[test]
    fn a_slow_camera_sets_the_period_and_a_fast_one_costs_power() {
        let at = |fps| model().frame(&with(Place::Local, Clock::Fixed(2.0), fps));
        let slow = at(0.5);
        assert!((slow.period_s - 2.0).abs() < 1e-9 && slow.age_s == 0.0);
        assert!((slow.latency_s - 1.065).abs() < 1e-9);
        let rates = [1.0, 5.0, 15.0, 30.0].map(at);
        for pair in rates.windows(2) {
            assert!(pair[1].energy_j() > pair[0].energy_j(), "each sampled frame costs energy");
            assert!(pair[1].sampling_share < pair[0].sampling_share);
        }
    }

    #[test]
    fn a_timeline_holds_the_frames_energy() {
        let with = with(Place::Local, Clock::Fixed(2.0), 10.0);
        let moments = model().timeline(&with, 3);
        let joules: f64 = moments.iter().map(|m| m.watts * m.seconds).sum();
        assert!((joules - 3.0 * model().frame(&with).energy_j()).abs() < 1e-9);
        let last = moments.last().expect("a moment");
        assert!((last.start_s + last.seconds - 3.0 * 1.065).abs() < 1e-9 && last.frame == 2);
    }

    #[test]
    fn a_remote_timeline_holds_the_energy_of_the_radio_s_tail() {
        let mut model = model();
        model.radio = Radio { tail_s: 0.7, tail_w: 1.0, ..model.radio };
        for fps in [0.5, 1.0, 15.0] {
            let with = with(Place::Remote, Clock::Fixed(2.0), fps);
            let moments = model.timeline(&with, 12);
            // The radio is idle before the first frame.
            let later = moments.iter().filter(|m| m.frame >= 2);
            let joules = later.map(|m| m.watts * m.seconds).sum::<f64>() / 10.0;
            let frame = model.frame(&with);
            assert!((joules - frame.energy_j()).abs() < 1e-9, "{joules}, {frame:?}");
            let end_s = moments.last().map(|m| m.start_s + m.seconds);
            assert!(end_s.is_some_and(|s| (s - 12.0 * frame.period_s).abs() < 1e-9));
        }
    }

    #[test]
    fn under_a_governor_a_frame_takes_its_latency_or_the_camera_s_period() {
        let loads = Loads { conversion: 0.95, inference: 0.9, waiting: 0.15 };
        let processor = Processor { steps_ghz: vec![0.3, 0.96, 1.5, 1.96, 2.65], loads };
        let model = OffloadModel { processor: Some(processor), ..model() };
        for governor in [Governor::Conservative, Governor::Ondemand, Governor::Interactive] {
            for tenths in 1..=15 {
                let fps = 0.1 * f64::from(tenths);
                for place in [Place::Local, Place::Remote] {
                    let with = with(place, Clock::Governed(governor), fps);
                    let frame = model.frame(&with);
                    let (period_s, camera_s) = (frame.period_s, 1.0 / fps);
                    assert!(period_s >= camera_s - 1e-9, "{governor}, {fps}: {period_s} s");
                    let moments = model.timeline(&with, 30);
                    let of = |n: usize| moments.iter().filter(move |m| m.frame == n);
                    for frame in 0..30 {
                        let seconds: f64 = of(frame).map(|m| m.seconds).sum();
                        let pause_s: f64 =
                            of(frame).filter(|m| m.phase == "pause").map(|m| m.seconds).sum();
                        let expected = (seconds - pause_s).max(camera_s);
                        assert!((seconds - expected).abs() < 1e-9, "{governor}, {fps}, {frame}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_governor_lies_between_its_lowest_and_its_highest_frequency() {
        let loads = Loads { conversion: 0.95, inference: 0.9, waiting: 0.1 };
        let processor = Processor { steps_ghz: vec![0.5, 1.0, 1.5, 2.0, 2.5], loads };
        let model = OffloadModel { processor: Some(processor), ..model() };
        for place in [Place::Local, Place::Remote] {
            let frame = |governor| model.frame(&with(place, Clock::Governed(governor), 15.0));
            let (slow, fast) = (frame(Governor::Powersave), frame(Governor::Performance));
            let fixed = model.frame(&with(place, Clock::Fixed(2.5), 15.0));
            assert!((fast.energy_j() - fixed.energy_j()).abs() < 1e-6);
            for governor in [Governor::Conservative, Governor::Ondemand, Governor::Interactive] {
                let between = frame(governor);
                assert!((fast.latency_s - 1e-9..slow.latency_s).contains(&between.latency_s));
                assert!((slow.ghz..=fast.ghz + 1e-9).contains(&between.ghz), "{governor}");
            }
        }
    }
}
