//! [`Stages`]: the stages of an architecture, stored inline, so that an architecture is `Copy`.

use super::{Stage, TokenMixer};
use crate::{Activation, Norm};
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// Most stages an architecture has.
pub const MAX_STAGES: usize = 8;

const NO_STAGE: Stage = Stage {
    channels: 0,
    depth: 0,
    token_mixer: TokenMixer::SepConv { kernel: 0, expansion: 0 },
    norm: Norm::BatchNorm,
    activation: Activation::Gelu,
    mlp_ratio: 0,
};

/// Up to [`MAX_STAGES`] stages, held in place; reads and writes like a slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "Vec<Stage>", try_from = "Vec<Stage>")]
pub struct Stages {
    len: u8,
    items: [Stage; MAX_STAGES],
}

impl Hash for Stages {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.iter().for_each(|stage| stage.hash(state));
        state.write_u8(self.len);
    }
}

impl Stages {
    /// No stages.
    #[must_use]
    pub const fn new() -> Self {
        Self { len: 0, items: [NO_STAGE; MAX_STAGES] }
    }

    /// Adds a stage at the end; false if all places are taken.
    pub fn push(&mut self, stage: Stage) -> bool {
        let Some(slot) = self.items.get_mut(usize::from(self.len)) else { return false };
        *slot = stage;
        self.len += 1;
        true
    }
}

impl Default for Stages {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Deref for Stages {
    type Target = [Stage];

    fn deref(&self) -> &[Stage] {
        &self.items[..usize::from(self.len)]
    }
}

impl DerefMut for Stages {
    fn deref_mut(&mut self) -> &mut [Stage] {
        &mut self.items[..usize::from(self.len)]
    }
}

impl From<Stages> for Vec<Stage> {
    fn from(stages: Stages) -> Self {
        stages.to_vec()
    }
}

impl TryFrom<Vec<Stage>> for Stages {
    type Error = String;

    fn try_from(list: Vec<Stage>) -> Result<Self, String> {
        let mut stages = Self::new();
        match list.iter().all(|&stage| stages.push(stage)) {
            true => Ok(stages),
            false => Err(format!("{} stages are more than {MAX_STAGES}", list.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_eight_and_no_more() {
        let list = vec![Stage { channels: 8, ..NO_STAGE }; MAX_STAGES];
        let stages = Stages::try_from(list.clone()).unwrap_or_default();
        assert_eq!(stages.to_vec(), list);
        assert_eq!(Vec::from(stages), list);
        let message = Stages::try_from([list, vec![NO_STAGE]].concat())
            .map_or_else(|e| e, |_| "accepted".to_owned());
        assert_eq!(message, "9 stages are more than 8");
    }
}
