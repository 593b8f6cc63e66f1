//! [`CyclePlanner`]: which regions get the cycles of a frame.
//!
//! A cycle takes a window of fixed size, because the encoder's input has a fixed size. A larger
//! region is cut into tiles that fit; a cycle also serves whatever other tile lies in its window.
//! The paper has two rules: the fastest first, and regions that were left out before take
//! precedence. Read literally (left out or not, then speed), a slow region waits for ever behind
//! two fast ones that take turns. Tiles are therefore ordered by how long they have waited: with at
//! most `n` tiles and `K` cycles none waits longer than `ceil(n / K)` frames.
//!
//! Where there are more tiles than cycles, a region that one cycle cannot hold may be seen at a lower
//! resolution instead: windows of up to [`CyclePlanner::with_zoom`] times the encoder's input on each
//! side. The paper's windows have the resolution of full frames.

use crate::{AriaError, Grid, Window, random::Random};
use std::{cmp::Ordering, collections::BTreeMap};

/// A region that should be updated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The same from frame to frame.
    pub region: u64,
    /// The window that the encoder must cover.
    pub window: Window,
    /// Patches per frame.
    pub speed: f32,
}

/// Who is first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Priority {
    /// Who waited longest; among equals the fastest.
    #[default]
    Waiting,
    /// Speed in patches per frame, plus this weight for each frame of waiting. Any value above 0
    /// prevents starvation; the smaller it is, the longer slow regions wait.
    Weighted(f32),
    /// The paper's words read literally: who was left out of the last frame; among those, and among
    /// the others, the fastest. A slow region may wait for ever behind two fast ones.
    CarriedOver,
    /// An order of chance, the same for the same seed, to compare with.
    Shuffled(u64),
}

/// One run of the region encoder.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycle {
    /// Its input, of the encoder's size, or larger by a whole factor.
    pub window: Window,
    /// Regions of which it covers a whole tile.
    pub regions: Vec<u64>,
}

/// Chooses cycles, frame after frame.
#[derive(Clone, Debug, PartialEq)]
pub struct CyclePlanner {
    grid: Grid,
    size: [usize; 2],
    zoom: usize,
    priority: Priority,
    /// Frames since each tile of a region was served.
    waited: BTreeMap<u64, Vec<u32>>,
    /// Frames planned.
    frames: u64,
}

#[derive(Clone, Copy, Debug)]
struct Tile {
    region: u64,
    number: usize,
    window: Window,
    waited: u32,
    speed: f32,
    /// Sides of the cycle's window, in those of the encoder's input.
    zoom: usize,
}

impl CyclePlanner {
    /// For an encoder of `rows` x `cols` patches.
    ///
    /// # Errors
    /// When the encoder's input is empty or larger than the frame, or a weight is not above 0.
    pub fn new(
        grid: Grid,
        [rows, cols]: [usize; 2],
        priority: Priority,
    ) -> Result<Self, AriaError> {
        if !(1..=grid.rows()).contains(&rows) || !(1..=grid.cols()).contains(&cols) {
            return Err(AriaError::setting(
                "the region encoder's input",
                format!("{rows} x {cols} patches"),
                "at least 1 x 1 and no larger than the frame",
            ));
        }
        if let Priority::Weighted(weight) = priority
            && !(weight > 0.0 && weight.is_finite())
        {
            return Err(AriaError::setting(
                "the weight of waiting",
                weight,
                "above 0: without it slow regions wait for ever",
            ));
        }
        let (size, waited) = ([rows, cols], BTreeMap::new());
        Ok(Self { grid, size, zoom: 1, priority, waited, frames: 0 })
    }

    /// The same with windows up to `zoom` times as high and wide as the encoder's input where there
    /// are more tiles than cycles; 1: never.
    #[must_use]
    pub fn with_zoom(self, zoom: usize) -> Self {
        Self { zoom: zoom.max(1), ..self }
    }

    /// Frames since the whole of a region was served; 0 for one that never asked.
    #[must_use]
    pub fn waited(&self, region: u64) -> u32 {
        self.waited.get(&region).and_then(|tiles| tiles.iter().max()).copied().unwrap_or(0)
    }

    /// At most `cycles` for this frame, the most urgent first. Regions that no longer request are
    /// removed.
    pub fn plan(&mut self, requests: &[Request], cycles: usize) -> Vec<Cycle> {
        self.frames += 1;
        let mut tiles = self.tiles(requests, cycles);
        tiles.sort_by(|a, b| self.order(a, b));
        let mut planned = Vec::new();
        while planned.len() < cycles
            && let Some(first) = tiles.first()
        {
            let window = self.around(first);
            let (served, left): (Vec<Tile>, Vec<Tile>) =
                tiles.into_iter().partition(|tile| window.covers(tile.window));
            for tile in &served {
                if let Some(waited) =
                    self.waited.get_mut(&tile.region).and_then(|tiles| tiles.get_mut(tile.number))
                {
                    *waited = 0;
                }
            }
            let mut regions: Vec<u64> = served.iter().map(|tile| tile.region).collect();
            regions.dedup();
            planned.push(Cycle { window, regions });
            tiles = left;
        }
        planned
    }

    /// A cycle of the latest plan did not run, because its frame ran out of time: its regions wait as
    /// if they had been left out.
    pub fn left_out(&mut self, cycle: &Cycle) {
        for region in &cycle.regions {
            let tiles = self.waited.get_mut(region).into_iter().flatten();
            tiles.filter(|waited| **waited == 0).for_each(|waited| *waited = 1);
        }
    }

    /// The tiles of all requests, each a frame older.
    fn tiles(&mut self, requests: &[Request], cycles: usize) -> Vec<Tile> {
        let zooms = self.zooms(requests, cycles);
        self.waited.retain(|region, _| requests.iter().any(|request| request.region == *region));
        self.waited.values_mut().flatten().for_each(|waited| *waited = waited.saturating_add(1));
        let mut tiles = Vec::new();
        for (request, zoom) in requests.iter().zip(zooms) {
            let windows = self.cut(request.window, zoom);
            let waited = self.waited.entry(request.region).or_default();
            if waited.len() < windows.len() {
                waited.resize(windows.len(), 1);
            }
            let speed = if request.speed.is_nan() { 0.0 } else { request.speed };
            let tile = |(number, window)| Tile {
                region: request.region,
                number,
                window,
                waited: waited[number],
                speed,
                zoom,
            };
            tiles.extend(windows.into_iter().enumerate().map(tile));
        }
        tiles
    }

    /// The zoom of each request: the regions of most tiles are seen at a lower resolution until there
    /// are as many cycles as tiles.
    fn zooms(&self, requests: &[Request], cycles: usize) -> Vec<usize> {
        let mut zooms = vec![1; requests.len()];
        if self.zoom == 1 {
            return zooms;
        }
        let count = |request: &Request, zoom: usize| self.cut(request.window, zoom).len();
        let mut largest: Vec<usize> = (0..requests.len()).collect();
        largest.sort_by_key(|at| std::cmp::Reverse(count(&requests[*at], 1)));
        let mut tiles: usize = requests.iter().map(|request| count(request, 1)).sum();
        for at in largest {
            if tiles <= cycles {
                break;
            }
            let request = &requests[at];
            zooms[at] = self.zoom_for(request.window);
            tiles = tiles + count(request, zooms[at]) - count(request, 1);
        }
        zooms
    }

    /// The least zoom with which one cycle holds a window, or the greatest that fits the frame.
    fn zoom_for(&self, window: Window) -> usize {
        let fits = |zoom: &usize| {
            self.size[0] * zoom <= self.grid.rows() && self.size[1] * zoom <= self.grid.cols()
        };
        let holds =
            |zoom: &usize| self.size[0] * zoom >= window.rows && self.size[1] * zoom >= window.cols;
        let zooms = || (1..=self.zoom).take_while(fits);
        zooms().find(holds).or_else(|| zooms().last()).unwrap_or(1)
    }

    /// Equal tiles no larger than `zoom` times the encoder's input.
    fn cut(&self, window: Window, zoom: usize) -> Vec<Window> {
        let [rows, cols] =
            [window.rows.div_ceil(self.size[0] * zoom), window.cols.div_ceil(self.size[1] * zoom)];
        let part = |start: usize, length: usize, parts: usize, number: usize| {
            let (from, to) = (length * number / parts, length * (number + 1) / parts);
            (start + from, to - from)
        };
        let places = (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c)));
        let tile = |(r, c)| {
            let ((row, rows), (col, cols)) =
                (part(window.row, window.rows, rows, r), part(window.col, window.cols, cols, c));
            Window { row, col, rows, cols }
        };
        places.map(tile).collect()
    }

    /// The encoder's input with a tile in its middle, inside the frame.
    fn around(&self, tile: &Tile) -> Window {
        let [rows, cols] = self.size.map(|side| side * tile.zoom);
        let tile = tile.window;
        let place = |start: usize, length: usize, size: usize, sides: usize| {
            (start + length / 2).saturating_sub(size / 2).min(sides - size)
        };
        let row = place(tile.row, tile.rows, rows, self.grid.rows());
        let col = place(tile.col, tile.cols, cols, self.grid.cols());
        // Halving may round away from the tile by one.
        let row = row.min(tile.row).max(tile.end_row().saturating_sub(rows));
        let col = col.min(tile.col).max(tile.end_col().saturating_sub(cols));
        Window { row, col, rows, cols }
    }

    fn order(&self, a: &Tile, b: &Tile) -> Ordering {
        let urgent = match self.priority {
            Priority::Waiting => b.waited.cmp(&a.waited).then(b.speed.total_cmp(&a.speed)),
            Priority::Weighted(weight) => {
                let key = |tile: &Tile| tile.speed + weight * tile.waited as f32;
                key(b).total_cmp(&key(a))
            }
            Priority::CarriedOver => {
                let left_out = |tile: &Tile| tile.waited > 1;
                left_out(b).cmp(&left_out(a)).then(b.speed.total_cmp(&a.speed))
            }
            Priority::Shuffled(seed) => {
                let drawn = |tile: &Tile| {
                    let which = tile.region.rotate_left(20) ^ tile.number as u64;
                    Random::new(seed ^ self.frames.rotate_left(40) ^ which).bits()
                };
                drawn(a).cmp(&drawn(b))
            }
        };
        urgent.then(a.region.cmp(&b.region)).then(a.number.cmp(&b.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::new(29, 47).expect("a grid")
    }

    fn planner(priority: Priority) -> CyclePlanner {
        CyclePlanner::new(grid(), [6, 8], priority).expect("a planner")
    }

    /// Three regions far apart, so that no cycle serves two.
    fn three() -> [Request; 3] {
        let request = |region, row, speed| Request {
            region,
            window: Window { row, col: 3, rows: 4, cols: 4 },
            speed,
        };
        [request(0, 0, 3.0), request(1, 12, 2.0), request(2, 24, 0.1)]
    }

    #[test]
    fn the_fastest_is_first_and_then_all_take_turns() {
        let mut planner = planner(Priority::Waiting);
        let served: Vec<u64> = (0..7)
            .flat_map(|_| planner.plan(&three(), 1))
            .flat_map(|cycle| cycle.regions)
            .collect();
        assert_eq!(served, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn cycles_that_did_not_run_come_before_those_that_did() {
        let mut planner = planner(Priority::Waiting);
        let planned = planner.plan(&three(), 3);
        planner.left_out(&planned[2]);
        assert_eq!(three().map(|request| planner.waited(request.region)), [0, 0, 1]);
        assert_eq!(planner.plan(&three(), 1)[0].regions, [2]);
    }

    #[test]
    fn the_literal_reading_starves_and_weights_do_not() {
        let mut literal = planner(Priority::CarriedOver);
        for _ in 0..18_000 {
            literal.plan(&three(), 1);
        }
        assert_eq!(literal.waited(2), 18_000, "the slow one is never served");
        let mut chance = planner(Priority::Shuffled(1));
        let mut counts = [0; 3];
        for _ in 0..3000 {
            let served = chance.plan(&three(), 1).into_iter().flat_map(|cycle| cycle.regions);
            served.for_each(|region| counts[region as usize] += 1);
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        for weight in [0.05, 0.5, 100.0] {
            let mut planner = planner(Priority::Weighted(weight));
            let mut longest = 0;
            for _ in 0..18_000 {
                planner.plan(&three(), 1);
                longest = longest.max(planner.waited(2));
            }
            assert!(longest <= (2.9 / weight) as u32 + 4, "{weight}: {longest}");
        }
        for weight in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(CyclePlanner::new(grid(), [6, 8], Priority::Weighted(weight)).is_err());
        }
    }

    #[test]
    fn no_region_waits_for_ever_over_18_000_frames() {
        for cycles in 1..=4 {
            let mut random = Random::new(cycles as u64);
            let mut planner = planner(Priority::Waiting);
            let mut requests: Vec<Request> = Vec::new();
            let (mut next, mut most) = (0, 0);
            for _ in 0..18_000 / 4 {
                if requests.len() < 12 && random.uniform() < 0.3 {
                    let [row, col] = [random.below(20), random.below(35)];
                    let [rows, cols] = [1 + random.below(9), 1 + random.below(12)];
                    requests.push(Request {
                        region: next,
                        window: Window { row, col, rows, cols },
                        speed: random.uniform() as f32 * 3.0,
                    });
                    next += 1;
                }
                if random.uniform() < 0.1 && !requests.is_empty() {
                    requests.swap_remove(random.below(requests.len()));
                }
                requests
                    .iter_mut()
                    .for_each(|request| request.speed = random.uniform() as f32 * 3.0);
                let tiles: usize =
                    requests.iter().map(|request| planner.cut(request.window, 1).len()).sum();
                most = most.max(tiles.div_ceil(cycles));
                let planned = planner.plan(&requests, cycles);
                assert!(planned.len() <= cycles && planned.is_empty() == requests.is_empty());
                for cycle in planned {
                    assert!(
                        grid().window().covers(cycle.window)
                            && (cycle.window.rows, cycle.window.cols) == (6, 8)
                            && !cycle.regions.is_empty()
                    );
                }
                for request in &requests {
                    assert!(
                        planner.waited(request.region) as usize <= most,
                        "{} {most}",
                        planner.waited(request.region)
                    );
                }
            }
        }
    }

    #[test]
    fn large_regions_are_seen_at_a_lower_resolution_where_cycles_are_short() {
        let mut planner = planner(Priority::Waiting).with_zoom(2);
        let request = |region, row, rows, cols| Request {
            region,
            window: Window { row, col: 3, rows, cols },
            speed: 1.0,
        };
        let (large, small) = (request(1, 2, 11, 15), request(2, 20, 3, 4));
        let planned = planner.plan(&[large, small], 2);
        let sizes: Vec<_> = planned.iter().map(|c| (c.window.rows, c.window.cols)).collect();
        assert!(sizes.contains(&(12, 16)) && sizes.contains(&(6, 8)), "{sizes:?}");
        assert!(planned.iter().any(|cycle| cycle.window.covers(large.window)));
        // Five tiles and five cycles: nothing is lost.
        let planned = planner.plan(&[large, small], 5);
        assert!(planned.len() == 5 && planned.iter().all(|cycle| cycle.window.rows == 6));
        // A window that is too large for the greatest zoom is cut.
        let planned = planner.plan(&[request(1, 0, 29, 40)], 2);
        assert!(planned.iter().all(|cycle| (cycle.window.rows, cycle.window.cols) == (12, 16)));
        // The frame has no room for three times the encoder's input.
        let mut wide = CyclePlanner::new(grid(), [10, 20], Priority::Waiting).expect("a planner");
        wide = wide.with_zoom(3);
        let planned = wide.plan(&[request(1, 0, 25, 44)], 1);
        assert_eq!((planned[0].window.rows, planned[0].window.cols), (20, 40));
    }

    #[test]
    fn large_regions_are_cut_and_near_ones_share_a_cycle() {
        let mut planner = planner(Priority::Waiting);
        let large =
            Request { region: 7, window: Window { row: 2, col: 3, rows: 13, cols: 9 }, speed: 1.0 };
        assert_eq!(planner.cut(large.window, 1).len(), 6);
        assert_eq!(
            planner.cut(large.window, 1).iter().map(|w| w.patches()).sum::<usize>(),
            large.window.patches()
        );
        assert_eq!((0..3).map(|_| planner.plan(&[large], 2).len()).sum::<usize>(), 6);
        assert!(planner.waited(7) < 3);
        let near = |region, col| Request {
            region,
            window: Window { row: 20, col, rows: 3, cols: 3 },
            speed: 1.0,
        };
        let planned = planner.plan(&[near(1, 10), near(2, 12), near(3, 30)], 1);
        assert_eq!(planned.len(), 1);
        assert_eq!(planned[0].regions, [1, 2]);
        assert!(CyclePlanner::new(grid(), [30, 2], Priority::Waiting).is_err());
        assert!(planner.plan(&[], 4).is_empty() && planner.plan(&[near(1, 1)], 0).is_empty());
    }
}
