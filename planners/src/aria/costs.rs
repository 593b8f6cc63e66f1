//! [`AriaCosts`]: what everything takes on a device, forecast or from a file.

use super::{AriaPlanError, Forecast};
use crate::simulator::{ProcessorModel, Thermal};
use serde::{Deserialize, Serialize};

/// One resolution of full frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Pixels.
    pub height: usize,
    /// Pixels.
    pub width: usize,
    /// Patches.
    pub rows: usize,
    /// Patches.
    pub cols: usize,
    /// The encoder on a full frame, on the processor of full frames.
    pub full_frame: Forecast,
    /// The same on the processor of regions: what doing without the other processor would take.
    pub alone: Forecast,
    /// The decoder on a frame of this resolution, on the processor of regions.
    pub decoder: Forecast,
}

/// One size of what is updated at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionEncoder {
    /// Patches.
    pub rows: usize,
    /// Patches.
    pub cols: usize,
    /// One cycle on the processor of regions.
    pub cycle: Forecast,
    /// The same on the processor of full frames.
    pub elsewhere: Forecast,
}

impl RegionEncoder {
    /// Patches updated by a cycle without a border of one patch, which is only there to be seen
    /// (section 4.3.2).
    #[must_use]
    pub fn useful(&self) -> usize {
        self.rows.saturating_sub(2) * self.cols.saturating_sub(2)
    }
}

/// What baselines do in every frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baselines {
    /// Finding dynamic regions by matching blocks of pixels, on the CPU.
    pub block_matching: Forecast,
    /// Patches on a side of a block.
    pub block_patches: usize,
}

/// Processors, in the order CPU, processor of full frames, processor of regions; and their heat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AriaDevice {
    /// The three.
    pub processors: Vec<ProcessorModel>,
    /// Power that is always drawn near the chip, W.
    pub base_w: f64,
    /// Temperatures and throttling.
    pub thermal: Thermal,
    /// Spread of run times: coefficient of variation.
    pub spread: f64,
}

/// What everything takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AriaCosts {
    /// Where the numbers come from, one sentence each.
    pub sources: Vec<String>,
    /// Pixels on a side of a patch.
    pub patch: usize,
    /// Rising.
    pub levels: Vec<Level>,
    /// Sizes to choose from.
    pub regions: Vec<RegionEncoder>,
    /// Per frame on the CPU: identification, tracking, warping, scheduling.
    pub frame_step: Forecast,
    /// Per frame: patch flow, where it is a network.
    pub patch_flow: Forecast,
    /// What baselines do.
    pub baselines: Baselines,
}

impl AriaCosts {
    /// A phone of the paper: what it prints, and estimates where it prints nothing (`sources` says
    /// which is which).
    ///
    /// # Errors
    /// When the shipped file is damaged.
    pub fn paper_phone() -> Result<(Self, AriaDevice), AriaPlanError> {
        #[derive(Deserialize)]
        struct Shipped {
            costs: AriaCosts,
            device: AriaDevice,
        }
        let shipped: Shipped = serde_json::from_str(include_str!("../../data/aria_phone.json"))
            .map_err(|e| AriaPlanError::Forecast {
                what: "the shipped phone".to_owned(),
                reason: e.to_string(),
            })?;
        shipped.costs.check()?;
        Ok((shipped.costs, shipped.device))
    }

    /// # Errors
    /// [`AriaPlanError`] naming the invalid field.
    pub fn check(&self) -> Result<(), AriaPlanError> {
        if self.levels.is_empty() {
            return Err(AriaPlanError::NoLevel);
        }
        if self.regions.is_empty() {
            return Err(AriaPlanError::NoRegion);
        }
        let mut before = 0;
        for level in &self.levels {
            let &Level { height, width, rows, cols, .. } = level;
            if vitempo_aria::Grid::new(rows, cols).is_err() {
                return Err(AriaPlanError::Grid { height, width, rows, cols });
            }
            if rows * cols <= before {
                return Err(AriaPlanError::Order { height, width });
            }
            before = rows * cols;
        }
        let named = |what: String, forecast: &Forecast| {
            forecast
                .refusal()
                .map_or(Ok(()), |reason| Err(AriaPlanError::Forecast { what, reason }))
        };
        for level in &self.levels {
            for (name, forecast) in [
                ("full frame", &level.full_frame),
                ("full frame on the regions' processor", &level.alone),
                ("decoder", &level.decoder),
            ] {
                named(format!("{name} at {} x {}", level.height, level.width), forecast)?;
            }
        }
        for region in &self.regions {
            for forecast in [&region.cycle, &region.elsewhere] {
                named(format!("region of {} x {} patches", region.rows, region.cols), forecast)?;
            }
        }
        named("the step of a frame".to_owned(), &self.frame_step)?;
        named("patch flow".to_owned(), &self.patch_flow)?;
        named("block matching".to_owned(), &self.baselines.block_matching)
    }
}
