//! [`Trace`]: the input of a scheduler over a video: the motion of the camera and of regions, frame
//! by frame. A trace is a CSV file.
//!
//! The first line has the grid and the frame rate: `# grid_rows=29 grid_cols=47 frames_per_s=30`.
//! One row per moving region of a frame follows; frames start at 0 and rise. A frame without moving
//! regions has one row that ends after the camera's motion:
//!
//! | column | unit |
//! |---|---|
//! | `frame` | number |
//! | `translation_m`, `rotation_rad` | motion of the camera since the frame before; the same in all rows of a frame |
//! | `region` | number, the same from frame to frame |
//! | `row`, `col`, `rows`, `cols` | its window, in patches |
//! | `patches` | number of moving patches in the window |
//! | `dx`, `dy` | patches per frame to the right and down, beyond the camera's motion |

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};
use vitempo_aria::{Grid, Window};

/// Why a file is not a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{path}: cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The first line is not the header of a trace.
    #[error(
        "{path}: the first line must say the grid and the rate, e.g. `# grid_rows=29 grid_cols=47 \
        frames_per_s=30`; {reason}"
    )]
    Head {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The columns are not those of a trace.
    #[error("{path}: columns are {found}; they must be {wanted}")]
    Columns {
        /// The file.
        path: PathBuf,
        /// Columns of the file.
        found: String,
        /// Columns of a trace.
        wanted: &'static str,
    },
    /// A row that is not a frame.
    #[error("{path}, line {line}: {reason}")]
    Row {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// A trace without frames.
    #[error("{path}: it has no frame")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// A region that moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moving {
    /// Number of the region, the same from frame to frame.
    pub region: u64,
    /// Its window, in patches.
    pub window: Window,
    /// Number of moving patches in the window.
    pub patches: usize,
    /// Velocity in addition to the camera's motion, patches per frame: to the right, down.
    pub velocity: [f64; 2],
}

impl Moving {
    /// Speed, patches per frame.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.velocity[0].hypot(self.velocity[1])
    }
}

/// One camera frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceFrame {
    /// Translation of the camera since the frame before, m.
    pub translation_m: f64,
    /// Rotation of the camera since the frame before, rad.
    pub rotation_rad: f64,
    /// The moving regions.
    pub moving: Vec<Moving>,
}

impl TraceFrame {
    fn moves_as(&self, other: &Self) -> bool {
        self.translation_m == other.translation_m && self.rotation_rad == other.rotation_rad
    }
}

/// A sequence of camera frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Patches of a frame.
    pub grid: Grid,
    /// Camera frames per second.
    pub frames_per_s: f64,
    /// The frames, at least one.
    pub frames: Vec<TraceFrame>,
}

const COLUMNS: &str = "frame,translation_m,rotation_rad,region,row,col,rows,cols,patches,dx,dy";

impl Trace {
    /// Reads a trace from a file.
    ///
    /// # Errors
    /// [`TraceError`] naming the file and the line.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let text = vitempo_graph::files::read_text(path)
            .map_err(|source| TraceError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// The same from a file's text; `path` is for messages.
    ///
    /// # Errors
    /// As [`Trace::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, TraceError> {
        let (grid, frames_per_s) = head(path, text.lines().next().unwrap_or(""))?;
        let mut reader = csv::ReaderBuilder::new()
            .comment(Some(b'#'))
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let row_error =
            |line: u64, reason: String| TraceError::Row { path: path.to_owned(), line, reason };
        let found = reader
            .headers()
            .map_err(|e| row_error(1, e.to_string()))?
            .iter()
            .collect::<Vec<_>>()
            .join(",");
        if found != COLUMNS {
            return Err(TraceError::Columns { path: path.to_owned(), found, wanted: COLUMNS });
        }
        let mut frames: Vec<TraceFrame> = Vec::new();
        for record in reader.records() {
            let line = |e: &csv::Error| e.position().map_or(0, csv::Position::line);
            let record = record.map_err(|e| row_error(line(&e), e.to_string()))?;
            let at = record.position().map_or(0, csv::Position::line);
            let row = Row { record: &record };
            let columns = COLUMNS.split(',').count();
            if record.len() > columns {
                let wrong = format!("{} fields; a row has at most {columns}", record.len());
                return Err(row_error(at, wrong));
            }
            let frame = row.whole(0).map_err(|reason| row_error(at, reason))? as usize;
            let new = frame == frames.len();
            if !new && frame + 1 != frames.len() {
                return Err(row_error(
                    at,
                    format!(
                        "frame {frame} comes after frame {}; frames rise by 1 from 0",
                        frames.len() as i64 - 1
                    ),
                ));
            }
            let read = row
                .frame()
                .and_then(|camera| Ok((camera, row.moving(grid)?)))
                .map_err(|reason| row_error(at, reason))?;
            let (camera, moving) = read;
            if new {
                frames.push(camera);
            } else if let Some(last) = frames.last().filter(|last| !last.moves_as(&camera)) {
                let wrong = format!(
                    "the camera moves by {} m and {} rad; frame {frame} has {} m and {} rad in the \
                    row before",
                    camera.translation_m,
                    camera.rotation_rad,
                    last.translation_m,
                    last.rotation_rad
                );
                return Err(row_error(at, wrong));
            }
            if let (Some(moving), Some(last)) = (moving, frames.last_mut()) {
                if last.moving.iter().any(|other| other.region == moving.region) {
                    return Err(row_error(
                        at,
                        format!("region {} is in frame {frame} twice", moving.region),
                    ));
                }
                last.moving.push(moving);
            }
        }
        if frames.is_empty() {
            return Err(TraceError::Empty { path: path.to_owned() });
        }
        Ok(Self { grid, frames_per_s, frames })
    }

    /// The trace in the format of [`Trace::read`]; the comment states its origin.
    #[must_use]
    pub fn to_csv(&self, comment: &str) -> String {
        let mut text = format!(
            "# grid_rows={} grid_cols={} frames_per_s={}\n# {comment}\n{COLUMNS}\n",
            self.grid.rows(),
            self.grid.cols(),
            self.frames_per_s
        );
        for (number, frame) in self.frames.iter().enumerate() {
            let camera = format!("{number},{:.6},{:.6}", frame.translation_m, frame.rotation_rad);
            if frame.moving.is_empty() {
                let _ = writeln!(text, "{camera},,,,,,,,");
            }
            for m in &frame.moving {
                let Window { row, col, rows, cols } = m.window;
                let _ = writeln!(
                    text,
                    "{camera},{},{row},{col},{rows},{cols},{},{:.4},{:.4}",
                    m.region, m.patches, m.velocity[0], m.velocity[1]
                );
            }
        }
        text
    }

    /// Duration, s.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.frames.len() as f64 / self.frames_per_s
    }

    /// Mean number of moving regions per frame; 0 without frames.
    #[must_use]
    pub fn mean_moving(&self) -> f64 {
        let moving: usize = self.frames.iter().map(|frame| frame.moving.len()).sum();
        moving as f64 / self.frames.len().max(1) as f64
    }
}

fn head(path: &Path, line: &str) -> Result<(Grid, f64), TraceError> {
    let refuse = |reason: String| TraceError::Head { path: path.to_owned(), reason };
    let value = |name: &str| {
        let mut values = line
            .trim_start_matches('#')
            .split_whitespace()
            .filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let found = values.next();
        if values.next().is_some() {
            return Err(refuse(format!("`{name}` is there twice")));
        }
        found
            .and_then(|text| text.parse::<f64>().ok())
            .ok_or_else(|| refuse(format!("`{name}` is not there, or no number")))
    };
    let side = |name: &str| {
        let side = value(name)?;
        if side.fract() == 0.0 && (1.0..1e6).contains(&side) {
            Ok(side as usize)
        } else {
            Err(refuse(format!("`{name}` is {side}, not a whole number above 0")))
        }
    };
    let (rows, cols, rate) = (side("grid_rows")?, side("grid_cols")?, value("frames_per_s")?);
    let grid = Grid::new(rows, cols).map_err(|e| refuse(e.to_string()))?;
    if (0.1..=1000.0).contains(&rate) {
        Ok((grid, rate))
    } else {
        Err(refuse(format!("{rate} frames a second are not between 0.1 and 1000")))
    }
}

struct Row<'a> {
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    fn text(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or("")
    }

    fn name(column: usize) -> &'static str {
        COLUMNS.split(',').nth(column).unwrap_or("")
    }

    fn whole(&self, column: usize) -> Result<u64, String> {
        self.text(column).parse().map_err(|_| {
            format!("`{}` is `{}`, not a whole number", Self::name(column), self.text(column))
        })
    }

    fn number(&self, column: usize) -> Result<f64, String> {
        let parsed =
            self.text(column).parse::<f64>().ok().filter(|x| x.is_finite() && x.abs() < 1e9);
        parsed.ok_or_else(|| {
            format!("`{}` is `{}`, not a number", Self::name(column), self.text(column))
        })
    }

    fn frame(&self) -> Result<TraceFrame, String> {
        let (translation_m, rotation_rad) = (self.number(1)?, self.number(2)?);
        if translation_m < 0.0 || rotation_rad < 0.0 {
            return Err("the camera's motion is a length and an angle, 0 or more".to_owned());
        }
        Ok(TraceFrame { translation_m, rotation_rad, moving: Vec::new() })
    }

    fn moving(&self, grid: Grid) -> Result<Option<Moving>, String> {
        if self.text(3).is_empty() {
            let Some(column) = (4..self.record.len()).find(|column| !self.text(*column).is_empty())
            else {
                return Ok(None);
            };
            let (name, text) = (Self::name(column), self.text(column));
            return Err(format!("`{name}` is `{text}`, but `region` has no number"));
        }
        let side = |column: usize| {
            self.whole(column).map(|v| usize::try_from(v).unwrap_or(usize::MAX).min(1 << 20))
        };
        let window = Window { row: side(4)?, col: side(5)?, rows: side(6)?, cols: side(7)? };
        if window.rows == 0 || window.cols == 0 || !grid.window().covers(window) {
            return Err(format!(
                "the window of region {} does not lie in the grid of {grid}",
                self.text(3)
            ));
        }
        let patches = side(8)?;
        if patches == 0 || patches > window.patches() {
            return Err(format!("{patches} patches move in a window of {}", window.patches()));
        }
        Ok(Some(Moving {
            region: self.whole(3)?,
            window,
            patches,
            velocity: [self.number(9)?, self.number(10)?],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Trace, String> {
        Trace::parse(Path::new("t.csv"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn traces_survive_being_written_and_read() {
        let moving = Moving {
            region: 3,
            window: Window { row: 1, col: 2, rows: 4, cols: 5 },
            patches: 9,
            velocity: [0.25, -0.5],
        };
        let frame = |moving| TraceFrame { translation_m: 0.01, rotation_rad: 0.002, moving };
        let frames = vec![
            frame(vec![moving, Moving { region: 4, ..moving }]),
            frame(vec![]),
            frame(vec![moving]),
        ];
        let trace = Trace { grid: Grid::new(29, 47).expect("a grid"), frames_per_s: 30.0, frames };
        assert_eq!(parse(&trace.to_csv("made up")), Ok(trace));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let head = "# grid_rows=29 grid_cols=47 frames_per_s=30\n";
        let with =
            |rows: &str| parse(&format!("{head}{COLUMNS}\n{rows}")).expect_err("a broken trace");
        assert!(parse("frame\n").expect_err("no head").contains("grid_rows"));
        assert!(
            parse(&format!("{head}frame,region\n"))
                .expect_err("columns")
                .contains("must be frame,translation_m")
        );
        assert!(with("").contains("no frame"));
        let twice = parse(&format!("# grid_rows=2 {}", &head[2..])).expect_err("two grids");
        assert!(twice.contains("`grid_rows` is there twice"), "{twice}");
        assert!(
            with("0,0,0,,,,,,,,\n2,0,0,,,,,,,,\n").contains("line 4")
                && with("0,0,0,,,,,,,,\n2,0,0,,,,,,,,\n").contains("rise by 1")
        );
        assert!(with("0,0,zero,,,,,,,,\n").contains("`rotation_rad` is `zero`"));
        assert!(with("0,0,0,1,28,0,3,3,1,0,0\n").contains("does not lie in the grid"));
        assert!(with("0,0,0,1,1,1,3,3,10,0,0\n").contains("10 patches move in a window of 9"));
        assert!(with("0,0,0,1,1,1,3,3,1,0,0\n0,0,0,1,1,1,3,3,1,0,0\n").contains("twice"));
        let nameless = with("0,0,0,,,,,,,,\n1,0,0,,1,1,3,3,1,0,0\n");
        assert!(nameless.contains("line 4: `row` is `1`, but `region` has no"), "{nameless}");
        let other = with("0,0.5,0,1,1,1,3,3,1,0,0\n0,0.25,0,2,1,1,3,3,1,0,0\n");
        assert!(other.contains("line 4: the camera moves by 0.25 m") && other.contains("0.5 m"));
        let wide = with("0,0,0,1,1,1,3,3,1,0,0,7\n");
        assert!(wide.contains("line 3: 12 fields"), "{wide}");
        for (rows, says) in [("29.9", "`grid_rows` is 29.9"), ("1e20", "not a whole number")] {
            let head = format!("# grid_rows={rows} grid_cols=47 frames_per_s=30\n{COLUMNS}\n");
            assert!(parse(&head).is_err_and(|e| e.contains(says)), "{rows}");
        }
    }
}
