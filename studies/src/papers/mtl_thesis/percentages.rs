//! The thesis's percentages, recomputed from its tables.

use super::{PAIRS, PIPELINED, PaperError, SEQUENTIAL, SplitRow, Tables, Whole};
use crate::papers::claim::{Claim, Figure};
use vitempo::planners::pipeline::multitask::percent_of_maximum;

fn two(value: f64) -> Figure {
    Figure::new(value, 2)
}

/// New over old, in percent of the old value.
fn more(x: &[f64]) -> f64 {
    100.0 * (x[0] / x[1] - 1.0)
}

/// Every percentage of chapters 3 and 4 that its tables allow to recompute.
///
/// # Errors
/// [`PaperError`] when the tables are damaged.
pub fn claims() -> Result<Vec<Claim>, PaperError> {
    let tables = Tables::read()?;
    let mut claims = pipelining(&tables)?;
    claims.extend(scheduling(&tables)?);
    claims.extend(whole_models(&tables)?);
    Ok(claims)
}

/// Section 4.2 with tables 4.6 and 4.7.
fn pipelining(tables: &Tables) -> Result<Vec<Claim>, PaperError> {
    let mut claims = Vec::new();
    let base = tables.split(SEQUENTIAL, "cpu", "cpu")?;
    let gaps = [1.15, 6.31, 16.10, 19.86];
    let over_sequential = [39.8, 49.4, 33.0, 44.5];
    let over_base = [Some(79.3), Some(61.6), None, Some(22.8)];
    for (index, (encoder, decoders)) in PAIRS.into_iter().enumerate() {
        let pair = format!("{encoder}-{decoders}");
        let (sequential, pipelined) = (
            tables.split(SEQUENTIAL, encoder, decoders)?,
            tables.split(PIPELINED, encoder, decoders)?,
        );
        let fps = two(pipelined.frames_per_s);
        let columns = [
            (pipelined.percent_of_both, 1.0, pipelined.both_ms, "E+D"),
            (pipelined.percent_of_twice_encoder, 2.0, pipelined.encoder_ms, "2 E"),
        ];
        for (printed, times, ms, longest) in columns {
            let printed = printed.ok_or_else(|| PaperError::Row(format!("{pair} in table 4.7")))?;
            let formula = |x: &[f64]| percent_of_maximum(x[0], times * x[1]);
            claims.push(Claim::new(
                "table 4.7",
                format!("eq. 4.1 for {pair}, M = {longest}"),
                two(printed),
                &[fps, two(ms)],
                formula,
            ));
        }
        let percentages = [pipelined.percent_of_both, pipelined.percent_of_twice_encoder]
            .map(|p| two(p.unwrap_or(f64::NAN)));
        claims.push(Claim::new(
            "section 4.2",
            format!("gap between the columns for {pair}"),
            two(gaps[index]),
            &percentages,
            |x| x[0] - x[1],
        ));
        let rates = [fps, two(sequential.frames_per_s)];
        claims.push(Claim::new(
            "section 4.2",
            format!("{pair} pipelined over sequential, %"),
            Figure::new(over_sequential[index], 1),
            &rates,
            more,
        ));
        if let Some(printed) = over_base[index] {
            let rates = [fps, two(base.frames_per_s)];
            claims.push(Claim::new(
                "section 4.2",
                format!("{pair} pipelined over cpu-cpu sequential, %"),
                Figure::new(printed, 1),
                &rates,
                more,
            ));
        }
    }
    let best = tables.split(PIPELINED, "npu", "cpu")?;
    for (model, printed) in [("ResNet-18", 19.04), ("SwinDS-Q", 17.11)] {
        let inputs = [
            two(tables.whole(model, "cpu")?.frames_per_s),
            two(best.frames_per_s),
            two(base.frames_per_s),
        ];
        claims.push(Claim::new(
            "section 4.2",
            format!("{model} if it gained as much, 1/s"),
            two(printed),
            &inputs,
            |x| x[0] * x[1] / x[2],
        ));
    }
    Ok(claims)
}

/// Section 4.1.2 with table 4.5.
fn scheduling(tables: &Tables) -> Result<Vec<Claim>, PaperError> {
    let row = |encoder, decoders| tables.split(SEQUENTIAL, encoder, decoders);
    let base = row("cpu", "cpu")?;
    let rate = |row: &SplitRow| [two(row.frames_per_s), two(base.frames_per_s)];
    let warming = [two(row("npu", "cpu")?.delta_c), two(row("cpu", "npu")?.delta_c)];
    let whole = tables.whole("SwinDS-T", "cpu")?;
    let runtimes = [two(base.both_ms), two(whole.runtime_ms)];
    Ok(vec![
        Claim::new(
            "section 4.1.2",
            "npu-cpu over cpu-cpu, frame rate, %",
            Figure::new(28.2, 1),
            &rate(row("npu", "cpu")?),
            more,
        ),
        Claim::new(
            "section 4.1.2",
            "npu-npu over cpu-cpu, frame rate, %",
            Figure::new(8.1, 1),
            &rate(row("npu", "npu")?),
            more,
        ),
        Claim::new(
            "section 4.1.2",
            "npu-cpu behind cpu-npu, warming, %",
            Figure::new(11.4, 1),
            &warming,
            more,
        ),
        Claim::new(
            "section 4.1.2",
            "cpu-cpu over the whole model, runtime, %",
            Figure::new(53.0, 0),
            &runtimes,
            more,
        ),
    ])
}

type Column = fn(&Whole) -> f64;

/// Chapter 3 and section 4.1.1.
fn whole_models(tables: &Tables) -> Result<Vec<Claim>, PaperError> {
    let both = |model, of: Column| -> Result<[Figure; 2], PaperError> {
        Ok([two(of(tables.whole(model, "npu")?)), two(of(tables.whole(model, "cpu")?))])
    };
    let [inference, fps, energy, delta]: [Column; 4] =
        [|w| w.inference_ms, |w| w.frames_per_s, |w| w.energy_mwh, |w| w.delta_c];
    let one = |value| Figure::new(value, 1);
    let less = |x: &[f64]| -more(x);
    let (fast, slow) = (tables.whole("ResNet-18", "cpu")?, tables.whole("ResNet-50", "cpu")?);
    let m4000 =
        tables.device.get(1).ok_or_else(|| PaperError::Row("the second device".to_owned()))?;
    let watts = [two(m4000.energy_mwh), two(m4000.inference_ms)];
    Ok(vec![
        Claim::new(
            "section 3.1.3",
            "ResNet-18 faster than ResNet-50, runtime, %",
            Figure::new(52.0, 0),
            &[two(slow.runtime_ms), two(fast.runtime_ms)],
            more,
        ),
        Claim::new(
            "section 4.1.1",
            "ResNet-18 on the NPU: slower, frame rate, %",
            one(10.0),
            &both("ResNet-18", fps)?,
            less,
        ),
        Claim::new(
            "section 4.1.1",
            "ResNet-18 on the NPU: more energy, %",
            one(8.7),
            &both("ResNet-18", energy)?,
            more,
        ),
        Claim::new(
            "section 4.1.1",
            "ResNet-18 on the NPU: less warming, %",
            one(34.5),
            &both("ResNet-18", delta)?,
            less,
        ),
        Claim::new(
            "section 4.1.1",
            "ResNet-50 on the NPU: more execution time, %",
            one(14.8),
            &both("ResNet-50", inference)?,
            more,
        ),
        Claim::new(
            "section 4.1.1",
            "ResNet-50 on the NPU: lower frame rate, %",
            one(6.4),
            &both("ResNet-50", fps)?,
            less,
        ),
        Claim::new(
            "section 4.1.1",
            "ResNet-50 on the NPU: more energy, %",
            one(48.1),
            &both("ResNet-50", energy)?,
            more,
        ),
        Claim::new(
            "section 4.1.1",
            "ResNet-50 on the NPU: more warming, %",
            one(141.2),
            &both("ResNet-50", delta)?,
            more,
        ),
        Claim::new(
            "section 4.1.1",
            "SwinDS-T on the NPU: less execution time, %",
            one(3.0),
            &both("SwinDS-T", inference)?,
            less,
        ),
        Claim::new(
            "section 4.1.1",
            "SwinDS-T on the NPU: higher frame rate, %",
            one(2.3),
            &both("SwinDS-T", fps)?,
            more,
        ),
        Claim::new(
            "section 4.1.1",
            "SwinDS-T on the NPU: more energy, %",
            one(12.5),
            &both("SwinDS-T", energy)?,
            more,
        ),
        Claim::new(
            "section 4.1.1",
            "SwinDS-T on the NPU: more warming, %",
            one(405.0),
            &both("SwinDS-T", delta)?,
            more,
        ),
        // The S24's rows imply some 10 W; energy in mWh over a time in ms.
        Claim::new(
            "table 3.3",
            "the M4000's power while inferring, at most 20 W",
            Figure::new(20.0, 0),
            &watts,
            |x| x[0] * 3.6 / (x[1] / 1e3),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_come_out_and_contradictions_are_listed() {
        let claims = claims().expect("the tables");
        let contradicted: Vec<&str> =
            claims.iter().filter(|c| !c.holds()).map(|c| c.what.as_str()).collect();
        let expected = [
            "cpu-cpu over the whole model, runtime, %",
            "ResNet-18 faster than ResNet-50, runtime, %",
            "ResNet-18 on the NPU: slower, frame rate, %",
            "ResNet-50 on the NPU: more execution time, %",
            "ResNet-50 on the NPU: lower frame rate, %",
            "SwinDS-T on the NPU: less execution time, %",
            "SwinDS-T on the NPU: more warming, %",
            "the M4000's power while inferring, at most 20 W",
        ];
        assert_eq!(contradicted, expected);
        assert!(claims.iter().filter(|c| c.place == "table 4.7").count() == 8);
        assert_eq!(claims.len() - contradicted.len(), 30);
    }
}
