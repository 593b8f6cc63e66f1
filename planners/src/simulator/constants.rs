//! Constants of the simulator's models: value, unit, and a source or a mark as an estimate.
//!
//! Estimates are engineering guesses, not measurements of a particular device; fit them where a
//! measurement is available. [`super::sensitivity`] shows whether a conclusion depends on them.

use serde::Serialize;

/// The origin of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Printed in, or fitted to, the named source.
    Source(&'static str),
    /// Not measured; the reason why it is plausible.
    Estimate(&'static str),
}

/// One constant of a model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Constant {
    /// Its field in [`Constants`].
    pub name: &'static str,
    /// The default, in its unit.
    pub value: f64,
    /// `1` for a share or a count.
    pub unit: &'static str,
    /// The origin of the default.
    pub provenance: Provenance,
}

macro_rules! constants {
    ($($name:ident = $value:literal, $unit:literal, $provenance:expr;)*) => {
        /// A value for each constant.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct Constants {
            $(
                #[doc = concat!("In ", $unit, ".")]
                pub $name: f64,
            )*
        }

        impl Default for Constants {
            fn default() -> Self {
                Self { $($name: $value,)* }
            }
        }

        impl Constants {
            /// Every constant with its default, unit and provenance.
            pub const ALL: &'static [Constant] = &[$(Constant { name: stringify!($name), value: $value, unit: $unit, provenance: $provenance },)*];

            /// A mutable reference to a constant, by name.
            pub fn by_name(&mut self, name: &str) -> Option<&mut f64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

use Provenance::{Estimate, Source};

constants! {
    camera_fps = 30.0, "1/s", Estimate("the thesis does not print its camera's rate; 30 is the \
        usual preview rate and explains its frame rates");
    latency_cv = 0.05, "1", Estimate("forecasts of operator latency are off by 4-9 %, repeated \
        runs on a phone differ by a few percent");
    cpu_a_w_per_ghz = 0.354, "W/GHz", Source("fitted to inference power at 0.3 and 2.649 GHz, AR \
        energy study, Tables I and II");
    cpu_b_w_per_ghz3 = 0.0928, "W/GHz^3", Source("fitted to inference power at 0.3 and 2.649 GHz, \
        AR energy study, Tables I and II");
    contention_from = 0.3, "of peak", Estimate("three regions as in PCCS, MICRO 2021; the knees \
        depend on the memory controller");
    contention_to = 0.8, "of peak", Estimate("three regions as in PCCS, MICRO 2021; the knees \
        depend on the memory controller");
    contention_most = 1.36, "1", Source("encoder and decoders side by side on NPU and CPU against \
        one after the other: thesis, Tables 4.5 and 4.6");
    cpu_bandwidth_share = 0.5, "of peak", Estimate("convolutions on all cores of a phone read and \
        write about half of what its memory can move");
    npu_bandwidth_share = 0.6, "of peak", Estimate("an accelerator without caches of a \
        processor's size reads its features more often");
    dispatch_cpu_ns = 20_000.0, "ns", Estimate("a function call and waking a thread");
    dispatch_gpu_ns = 200_000.0, "ns", Estimate("submitting a command buffer and waiting for its \
        fence on a phone");
    dispatch_npu_ns = 750_000.0, "ns", Estimate("a remote procedure call into an accelerator's \
        driver");
    npu_w = 2.0, "W", Estimate("a phone's accelerator at full load; it is built to draw less than \
        the processor");
    background_w = 2.99, "W", Source("base, camera and preview at 1.497 GHz: AR energy study, \
        Tables I and II");
    junction_to_skin_k_per_w = 5.0, "K/W", Estimate("a phone's chip under load is some 20-30 K \
        above its skin at 5 W");
    junction_j_per_k = 2.0, "J/K", Estimate("a package of some grams; with 5 K/W a time constant \
        of 10 s");
    skin_to_ambient_k_per_w = 5.0, "K/W", Estimate("a phone at 3-4 W is some 15-20 K above the \
        air");
    skin_j_per_k = 200.0, "J/K", Estimate("200 g of glass, metal and battery; with 5 K/W a time \
        constant of 1000 s");
    throttle_on_c = 60.0, "C", Estimate("a usual switch-on trip of a phone's power allocator");
    throttle_desired_c = 75.0, "C", Estimate("a usual desired temperature of a phone's power \
        allocator");
    sustainable_w = 3.5, "W", Estimate("what a phone gives off at a skin temperature one can hold");
    throttle_w_per_k = 0.1, "W/K", Estimate("a budget that falls by a few hundred milliwatts for \
        a few kelvins above what is desired");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_says_where_it_comes_from() {
        let mut constants = Constants::default();
        for constant in Constants::ALL {
            let text = match constant.provenance {
                Source(text) | Estimate(text) => text,
            };
            assert!(text.len() > 10, "{}", constant.name);
            assert_eq!(constants.by_name(constant.name).copied(), Some(constant.value));
        }
        assert_eq!(constants.by_name("nothing"), None);
    }
}
