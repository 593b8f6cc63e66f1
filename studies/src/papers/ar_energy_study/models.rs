//! Every figure that the model of the phone has something to say about, and whether the model was
//! fitted to it.

use super::phone::Phone;
use crate::papers::{Basis, PaperError, Reproduced};
use vitempo::planners::{
    Evidence,
    energy::{
        Governor,
        nexus6::{FITTED_RESOLUTIONS, FITTED_SIZES_PX},
        offload::{Clock, Frame, Place},
    },
};

const INTERACTIVE: Clock = Clock::Governed(Governor::Interactive);

/// The rows under construction.
struct Rows(Vec<Reproduced>);

impl Rows {
    fn add(&mut self, what: String, printed: f64, modelled: f64, basis: Basis) {
        let evidence = Evidence::CostModel;
        self.0.push(Reproduced { what, printed, modelled, evidence, basis });
    }
}

/// Fitted where the condition holds.
fn basis(fitted: bool) -> Basis {
    if fitted { Basis::Fitted } else { Basis::Predicted }
}

/// The model beside the study's tables and text.
///
/// # Errors
/// [`PaperError`] when a file is damaged.
pub fn models() -> Result<Vec<Reproduced>, PaperError> {
    let phone = Phone::new()?;
    let mut rows = Rows(Vec::new());
    powers(&phone, &mut rows)?;
    governors(&phone, &mut rows)?;
    sizes(&phone, &mut rows)?;
    conversions(&phone, &mut rows);
    text(&phone, &mut rows)?;
    Ok(rows.0)
}

fn seconds(frame: &Frame, phase: &str) -> f64 {
    frame.phases.iter().filter(|p| p.name == phase).map(|p| p.seconds).sum()
}

/// Table II: powers of the phases at fixed frequencies.
fn powers(phone: &Phone, rows: &mut Rows) -> Result<(), PaperError> {
    let local = &phone.measured.local;
    for name in ["powersave", "userspace", "performance"] {
        let (g, ghz) = phone.measured.fixed(name)?;
        let camera = phone.measured.camera.as_used();
        for (part, joules, over_s, watts) in [
            (
                "conversion",
                local.conversion_j[g],
                local.conversion_s[g],
                phone.device.conversion_power.watts(ghz),
            ),
            (
                "inference",
                local.inference_j[g],
                local.inference_s[g],
                phone.device.inference_power.watts(ghz),
            ),
            ("base", local.base_j[g], local.latency_s[g], phone.device.base.watts(ghz)),
            (
                "camera and preview",
                local.generation_and_preview_j[g],
                local.latency_s[g],
                phone.device.camera.watts(ghz, camera),
            ),
        ] {
            let what = format!("table II: power of {part} at {ghz} GHz, W");
            rows.add(what, joules / over_s, watts, basis(name != "userspace"));
        }
    }
    Ok(())
}

/// Tables I to III and VI.
fn governors(phone: &Phone, rows: &mut Rows) -> Result<(), PaperError> {
    let (local, remote) = (&phone.measured.local, &phone.measured.remote);
    for (g, name) in phone.measured.governors.iter().enumerate() {
        let clock = phone.clock(name)?;
        let (here, there) = (phone.frame(Place::Local, clock), phone.frame(Place::Remote, clock));
        let (performance, interactive) = (name == "performance", name == "interactive");
        for (what, printed, modelled, fitted) in [
            (
                "table I, {}: latency, s",
                local.latency_s[g],
                here.latency_s,
                performance || interactive,
            ),
            (
                "table I, {}: conversion, s",
                local.conversion_s[g],
                seconds(&here, "conversion"),
                performance || interactive,
            ),
            (
                "table I, {}: inference, s",
                local.inference_s[g],
                seconds(&here, "inference"),
                performance || interactive,
            ),
            ("table II, {}: energy, J", local.energy_j[g], here.energy_j(), performance),
            ("table II, {}: power, W", local.power_w[g], here.mean_w(), performance),
            (
                "table III, {}: latency, s",
                remote.latency_s[g],
                there.latency_s,
                performance || interactive,
            ),
            (
                "table III, {}: conversion, s",
                remote.conversion_s[g],
                seconds(&there, "conversion"),
                interactive,
            ),
            ("table VI, {}: energy, J", remote.energy_j[g], there.energy_j(), performance),
            ("table VI, {}: power, W", remote.power_w[g], there.mean_w(), performance),
        ] {
            rows.add(what.replace("{}", name), printed, modelled, basis(fitted));
        }
    }
    Ok(())
}

/// Table VII.
fn sizes(phone: &Phone, rows: &mut Rows) -> Result<(), PaperError> {
    let table = &phone.measured.by_size;
    for (place, name, energies) in
        [(Place::Local, "local", &table.local_j), (Place::Remote, "remote", &table.remote_j)]
    {
        for (&size_px, &printed) in table.size_px.iter().zip(energies) {
            let modelled = phone.sized(place, size_px, INTERACTIVE)?.energy_j();
            let what = format!("table VII, {name}, {size_px} px: energy, J");
            rows.add(what, printed, modelled, basis(FITTED_SIZES_PX.contains(&size_px)));
        }
    }
    Ok(())
}

/// Table VIII, in cycles per millisecond of Java at the study's preview.
fn conversions(phone: &Phone, rows: &mut Rows) {
    let table = &phone.measured.conversion;
    let preview = phone.measured.camera.preview;
    let java = &phone.device.conversion[0];
    let reference = table.resolution.iter().position(|&r| r == preview).unwrap_or(0);
    let per_ms = java.cycles(preview).0 / table.java_ms[reference];
    for (method, times) in phone.device.conversion.iter().zip([&table.java_ms, &table.c_ms]) {
        for (row, (&resolution, &printed)) in table.resolution.iter().zip(times).enumerate() {
            let what = format!("table VIII, {}, {resolution}: conversion, ms", method.method);
            let fitted = FITTED_RESOLUTIONS.contains(&row) || row == reference && method == java;
            rows.add(what, printed, method.cycles(resolution).0 / per_ms, basis(fitted));
        }
    }
}

/// Observations with a number.
fn text(phone: &Phone, rows: &mut Rows) -> Result<(), PaperError> {
    let percent = |more: f64, less: f64| 100.0 * (more / less - 1.0);
    let sized = |px, clock| phone.sized(Place::Local, px, clock);
    let high = phone.clock("performance")?;
    for (name, clock, printed) in
        [("interactive", INTERACTIVE, 220.0), ("performance", high, 247.0)]
    {
        let (large, small) = (sized(600, clock)?.latency_s, sized(100, clock)?.latency_s);
        let what = format!("observation 11, {name}: latency from 100 to 600 px, + %");
        rows.add(what, printed, percent(large, small), Basis::Predicted);
    }
    for (px, printed) in [(100, 4.7), (600, 38.0)] {
        let frame = sized(px, INTERACTIVE)?;
        let share = 100.0 * frame.energy.inference_j / frame.energy_j();
        let what = format!("observation 14, {px} px: share of inference in energy, %");
        rows.add(what, printed, share, Basis::Predicted);
    }
    let at = |ghz| phone.frame(Place::Remote, Clock::Fixed(ghz));
    for (from, to, less_s, more_w) in [(0.3, 0.72, 55.0, 24.0), (2.26, 2.64, 5.0, 14.0)] {
        let (slow, fast) = (at(from), at(to));
        let what = |of: &str| format!("observation 22: {of} from {from} to {to} GHz, %");
        let less = -percent(fast.latency_s, slow.latency_s);
        rows.add(what("less latency"), less_s, less, Basis::Predicted);
        rows.add(
            what("more power"),
            more_w,
            percent(fast.mean_w(), slow.mean_w()),
            Basis::Predicted,
        );
    }
    let figures = &phone.measured.camera;
    let share = 100.0 * phone.device.camera.post_processing_share;
    let what = "observation 33: post-processing, share of the camera's power, %".to_owned();
    rows.add(what, figures.post_processing_pct, share, Basis::Fitted);
    let all = phone.filmed(INTERACTIVE, 30.0, true).energy_j();
    for (fps, printed, basis) in [
        (30.0, figures.off_at_30_fps_pct, Basis::Predicted),
        (5.0, figures.off_at_5_fps_pct, Basis::Fitted),
    ] {
        let less = -percent(phone.filmed(INTERACTIVE, fps, false).energy_j(), all);
        let what = format!("observation 35: less energy, all disabled at {fps} frames/s, %");
        rows.add(what, printed, less, basis);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::mape;

    #[test]
    fn what_is_predicted_is_near_what_is_printed() {
        let rows = models().expect("the tables");
        for row in &rows {
            println!("{:<70} {:9} {:+.3}", row.what, row.basis, row.error());
        }
        let of = |basis, part: &str| -> Vec<Reproduced> {
            let of = |row: &&Reproduced| row.basis == basis && row.what.contains(part);
            rows.iter().filter(of).cloned().collect()
        };
        let most = |rows: &[Reproduced]| rows.iter().map(|r| r.error().abs()).fold(0.0, f64::max);
        // Half of the sizes predict the other half within 10 %; so do governors and frequencies.
        let sizes = of(Basis::Predicted, "table VII,");
        assert!(sizes.len() == 6 && most(&sizes) < 0.1, "{sizes:?}");
        let energies = of(Basis::Predicted, ": energy, J");
        assert!(energies.len() > 10 && mape(&energies) < 0.07, "{energies:?}");
        assert!(mape(&of(Basis::Predicted, "table I, ")) < 0.1);
        assert!(mape(&of(Basis::Predicted, "table VIII")) < 0.1);
        let disabled = of(Basis::Predicted, "observation 35");
        assert!(disabled.len() == 1 && most(&disabled) < 0.2, "{disabled:?}");
    }
}
