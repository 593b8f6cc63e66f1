//! [`AriaCosts`]: the latency of each part of ARIA on a device, forecast or from a file.

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
    /// Latency of the encoder on a full frame, on the processor of full frames.
    pub full_frame: Forecast,
    /// The same on the processor of regions, for systems that use this processor alone.
    pub alone: Forecast,
    /// Latency of the decoder on a frame of this resolution, on the processor of regions.
    pub decoder: Forecast,
}

/// One input size of the region encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionEncoder {
    /// Patches.
    pub rows: usize,
    /// Patches.
    pub cols: usize,
    /// Latency of one cycle on the processor of regions.
    pub cycle: Forecast,
    /// The same on the processor of full frames.
    pub elsewhere: Forecast,
}

impl RegionEncoder {
    /// Patches that a cycle updates: all but a border of one patch, which is only context for the
    /// encoder (section 4.3.2).
    #[must_use]
    pub fn useful(&self) -> usize {
        self.rows.saturating_sub(2) * self.cols.saturating_sub(2)
    }
}

/// The work of the baselines in every frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baselines {
    /// Latency of finding dynamic regions by matching blocks of pixels, on the CPU.
    pub block_matching: Forecast,
    /// Side of a block, patches.
    pub block_patches: usize,
}

/// Processors, in the order CPU, processor of full frames, processor of regions; and their thermal
/// model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AriaDevice {
    /// The three processors.
    pub processors: Vec<ProcessorModel>,
    /// Constant power near the chip, W.
    pub base_w: f64,
    /// Temperatures and throttling.
    pub thermal: Thermal,
    /// Spread of run times: coefficient of variation.
    pub spread: f64,
}

/// The latencies of all parts of ARIA.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AriaCosts {
    /// The sources of the numbers, one sentence each.
    pub sources: Vec<String>,
    /// Side of a patch, px.
    pub patch: usize,
    /// Resolutions of full frames, rising.
    pub levels: Vec<Level>,
    /// Sizes of the region encoder to choose from.
    pub regions: Vec<RegionEncoder>,
    /// Latency per frame on the CPU: identification, tracking, warping, scheduling.
    pub frame_step: Forecast,
    /// Latency per frame of the patch flow, where a network computes it.
    pub patch_flow: Forecast,
    /// The work of the baselines.
    pub baselines: Baselines,
}

impl AriaCosts {
    /// The paper's phone: the numbers that the paper prints, and estimates where it prints none
    /// (`sources` says which is which).
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
        let above_zero = |name: &'static str, value: usize| match value {
            0 => Err(AriaPlanError::Requirement { name, value: 0.0, must: "above 0" }),
            _ => Ok(()),
        };
        above_zero("the side of a patch", self.patch)?;
        above_zero("the side of a block in patches", self.baselines.block_patches)?;
        for region in &self.regions {
            above_zero("a region's number of rows", region.rows)?;
            above_zero("a region's number of columns", region.cols)?;
        }
        let mut before = 0;
        for level in &self.levels {
            let &Level { height, width, rows, cols, .. } = level;
            above_zero("a level's height", height)?;
            above_zero("a level's width", width)?;
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
