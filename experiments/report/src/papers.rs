//! Published figures that stand beside ours.
//!
//! docs/papers.md names the documents and the source of each figure. Absolute times do not carry
//! over between machines; ratios within one run do.

/// One published point: threads that wait by yielding, against coroutines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Number of tasks.
    pub(crate) n: u32,
    /// The threads' time, in milliseconds.
    pub(crate) threads: f64,
    /// The coroutines' time, in milliseconds.
    pub(crate) coroutines: f64,
}

impl Point {
    /// Returns the coroutines' time divided by the threads'.
    pub(crate) fn ratio(self) -> f64 {
        self.coroutines / self.threads
    }
}

const fn point(n: u32, threads: f64, coroutines: f64) -> Point {
    Point {
        n,
        threads,
        coroutines,
    }
}

/// Experiment A: numbered tasks pass a turn through one shared variable.
///
/// Source: AsyncOS in its versions with four authors, table I. Figure 5 of AsyncOS has 2290 ms for
/// 4000 threads.
pub(crate) const A: &[Point] = &[
    point(200, 22.0, 49.0),
    point(800, 122.0, 124.0),
    point(1000, 193.0, 164.0),
    point(4000, 2090.0, 616.0),
];

/// Experiment B: tasks in series through pipes, by bytes a message.
///
/// Source: AsyncOS, figures 10 to 12, which are tables.
pub(crate) const B: &[(u32, &[Point])] = &[
    (
        1,
        &[
            point(200, 54.0, 56.0),
            point(400, 117.0, 93.0),
            point(4000, 1956.0, 651.0),
        ],
    ),
    (
        256,
        &[
            point(200, 55.0, 57.0),
            point(400, 119.0, 101.0),
            point(4000, 2103.0, 681.0),
        ],
    ),
    (
        4096,
        &[
            point(200, 78.0, 81.0),
            point(400, 134.0, 132.0),
            point(4000, 2484.0, 1099.0),
        ],
    ),
];

/// A published point of the TCP server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Served {
    /// Tasks that serve calls in the kernel (`K`) and tasks that run in the process (`U`):
    /// coroutines (`C`) or threads (`T`).
    pub(crate) model: &'static str,
    /// Connections.
    pub(crate) connections: u32,
    /// Requests per second.
    pub(crate) throughput: f64,
    /// Mean latency in milliseconds.
    pub(crate) latency: f64,
}

const fn served(model: &'static str, connections: u32, throughput: f64, latency: f64) -> Served {
    Served {
        model,
        connections,
        throughput,
        latency,
    }
}

/// The TCP server on four cores of 100 MHz; [`SERVER_LOAD`] is its load.
///
/// With kernel and user threads the run of 96 connections failed.
///
/// Source: raw data of the authors of COPS, not the text.
pub(crate) const SERVER: &[Served] = &[
    served("KCUC", 1, 19.5, 167.0),
    served("KCUC", 8, 153.0, 170.0),
    served("KCUC", 64, 487.0, 588.0),
    served("KCUC", 96, 491.0, 975.0),
    served("KTUT", 1, 40.1, 25.0),
    served("KTUT", 8, 154.0, 167.0),
    served("KTUT", 64, 94.0, 5993.0),
    served("KTUC", 1, 43.3, 16.0),
    served("KTUC", 8, 238.0, 71.0),
    served("KTUC", 64, 517.0, 554.0),
    served("KTUC", 96, 477.0, 1040.0),
];

/// The load of [`SERVER`]; the figures of that stand beside rows of the same load only.
pub(crate) const SERVER_LOAD: Load = Load {
    matrix: 15.0,
    period: 100.0,
    harts: 4.0,
};

/// Properties that two measurements of the TCP server must have in common to stand beside each
/// other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// Rows of a request's matrix.
    pub(crate) matrix: f64,
    /// Milliseconds from one request of a connection to the next.
    pub(crate) period: f64,
    /// Processors of the server.
    pub(crate) harts: f64,
}

/// On one core, the mean latency of the least urgent of eight levels divided by that of the most
/// urgent one.
///
/// Source: raw data of the authors of COPS, not the text: 64 connections, a request each 50 ms. How
/// the value was computed is not known (docs/papers.md). It is a target and stands beside no row of
/// ours. The load of our rows is that of COPS, section 5.2.
pub(crate) const LEVELS_APART: f64 = 13.5;

/// Number of connections that the TCP server takes in the same memory: with coroutines, with
/// threads.
///
/// Source: a draft in the repository of the authors of COPS, table of the largest number of
/// connections.
pub(crate) const CONNECTIONS: [f64; 2] = [385.0, 186.0];

/// Bytes of a connection's futures: in the process, in the kernel.
///
/// Source: the same draft, "Less memory usage".
pub(crate) const FUTURES: [f64; 2] = [264.0, 176.0];

/// Returns the published point of an experiment at `n`; `bytes` only matters in B.
pub(crate) fn find(experiment: &str, bytes: Option<f64>, n: f64) -> Option<Point> {
    let points = match experiment {
        "a" => A,
        "b" => {
            B.iter()
                .find(|(size, _)| Some(f64::from(*size)) == bytes)?
                .1
        }
        _ => return None,
    };
    points.iter().copied().find(|point| f64::from(point.n) == n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_published_figures_are_computed() {
        let ratio =
            |experiment, bytes, n| (find(experiment, bytes, n).unwrap().ratio() * 100.0).round();
        assert_eq!(ratio("a", None, 200.0), 223.0);
        assert_eq!(ratio("a", None, 4000.0), 29.0);
        assert_eq!(ratio("b", Some(1.0), 4000.0), 33.0);
        assert_eq!(ratio("b", Some(4096.0), 4000.0), 44.0);
        assert_eq!(find("a", None, 600.0), None);
        assert_eq!(find("b", Some(2.0), 4000.0), None);
    }
}
