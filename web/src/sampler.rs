//! Architectures of a search space: one that is changed choice by choice, and many on two devices.

use crate::{
    Failure, Session,
    answers::{Choice, Drawn, Latency, Sample},
};
use vitempo::{
    sampling::{self, choices},
    search::dominance::fronts,
    search_space::Space,
};

/// Most architectures that are drawn at a time.
const MOST_DRAWN: usize = 100_000;

impl Session {
    /// The architecture that a seed draws.
    ///
    /// # Errors
    /// Where there is no such space.
    pub fn sample(&self, space: &str, seed: u32) -> Result<Sample, Failure> {
        let space = Space::named(space).map_err(Failure::of)?;
        Sample::of(&space, &space.sample(seed.into()).encode())
    }

    /// The architecture of an encoding.
    ///
    /// # Errors
    /// Where the encoding cannot be read, or is not in the space.
    pub fn sampled(&self, space: &str, encoding: &str) -> Result<Sample, Failure> {
        Sample::of(&Space::named(space).map_err(Failure::of)?, encoding)
    }

    /// The latency of an architecture.
    ///
    /// # Errors
    /// The library's.
    pub fn sample_latency(
        &mut self,
        space: &str,
        encoding: &str,
        bundle: &str,
    ) -> Result<Latency, Failure> {
        let over = self.over(space, bundle)?;
        let architecture = over.space().decode(encoding).map_err(Failure::of)?;
        Ok(over.predict(&architecture).map_err(Failure::of)?.into())
    }

    /// Encodings of many architectures that a seed draws.
    ///
    /// # Errors
    /// Where the space has fewer.
    pub fn draw(&self, space: &str, count: usize, seed: u32) -> Result<Vec<String>, Failure> {
        let space = Space::named(space).map_err(Failure::of)?;
        let count = count.min(MOST_DRAWN);
        let drawn = space.sample_many(count, seed.into()).map_err(Failure::of)?;
        Ok(drawn.iter().map(|architecture| architecture.encode()).collect())
    }

    /// Latencies of architectures, ns, in their order.
    ///
    /// # Errors
    /// The library's.
    pub fn latencies(
        &mut self,
        space: &str,
        bundle: &str,
        encodings: &[String],
    ) -> Result<Vec<f64>, Failure> {
        let over = self.over(space, bundle)?;
        let found = over.predict_encodings(encodings, 1, &|| false).map_err(Failure::of)?;
        Ok(found.unwrap_or_default().iter().map(|latency| latency.point().ns()).collect())
    }

    /// Architectures with their latencies on two devices, and those that no other beats on both.
    #[must_use]
    pub fn drawn(encodings: Vec<String>, first: Vec<f64>, second: Vec<f64>) -> Drawn {
        let points: Vec<[f64; 2]> = first.iter().zip(&second).map(|(a, b)| [*a, *b]).collect();
        let front = fronts(&points).into_iter().next().unwrap_or_default();
        Drawn { encodings, first, second, front }
    }
}

impl Sample {
    fn of(space: &Space, encoding: &str) -> Result<Self, Failure> {
        let architecture = space.decode(encoding).map_err(Failure::of)?;
        let choices = choices(space, &architecture).into_iter().map(Choice::from).collect();
        Ok(Self { encoding: architecture.encode(), choices })
    }
}

impl From<sampling::Choice> for Choice {
    fn from(of: sampling::Choice) -> Self {
        let encodings = of.alternatives.iter().map(|a| a.architecture.encode()).collect();
        let values = of.alternatives.into_iter().map(|a| a.value).collect();
        let name = of.name.to_owned();
        Self { name, stage: of.stage, values, encodings, current: of.current }
    }
}
