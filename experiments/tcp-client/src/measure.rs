//! Which loads are run, and what is printed of them.

use crate::load::{self, Connection, Load, Outcome};
use anyhow::Result;
use std::time::Duration;

/// What the command line says.
pub(crate) struct Settings {
    /// Harts of the machine, for the rows.
    pub(crate) harts: u32,
    pub(crate) quick: bool,
    /// The models and the ports of this computer that lead to them.
    pub(crate) servers: Vec<(String, u16)>,
}

/// From one request of a connection to the next, in milliseconds: as in seed 002, section 5.1; and none, so that the server never has nothing to
/// do.
const PERIODS: [u64; 2] = [100, 0];

/// Seed 002, section 5.1.
pub(crate) fn models(settings: &Settings) -> Result<()> {
    let (connections, matrices, seconds, runs): (&[usize], &[u16], u64, u32) = if settings.quick {
        (&[1, 8, 64], &[1, 20], 1, 1)
    } else {
        (&[1, 2, 4, 8, 16, 32, 64, 96, 128], &[1, 15, 20], 3, 3)
    };
    for run in 0..runs {
        for period in PERIODS {
            for &rows in matrices {
                for &count in connections {
                    for (model, port) in &settings.servers {
                        let outcome = load::run(&Load {
                            port: *port,
                            levels: vec![DEFAULT_LEVEL; count],
                            rows,
                            period: Duration::from_millis(period),
                            duration: Duration::from_secs(seconds),
                        })?;
                        let point = format!(
                            r#""experiment":"tcp-models","model":"{model}","connections":{count},"matrix":{rows},"period":{period},"harts":{},"run":{run}"#,
                            settings.harts
                        );
                        show(&point, &outcome.connections, outcome.took);
                        let each = outcome.memory / count as u64;
                        row(&point, "bytes-per-connection", "bytes", each as f64);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Seed 002, section 5.2: 128 connections, 16 of each of 8 levels, a request each 50 ms. Beside that, the connections of level 0 alone;
/// all connections under overload; and as many, all at one level.
pub(crate) fn priorities(settings: &Settings) -> Result<()> {
    const LEVELS: u8 = 8;
    const EACH: usize = 16;
    let (seconds, runs) = if settings.quick { (2, 1) } else { (5, 3) };
    let by_level: Vec<u8> = (0..LEVELS).flat_map(|level| [level; EACH]).collect();
    let one_level = vec![LEVELS / 2; by_level.len()];
    let loads = [
        ("level-0-alone", vec![0; EACH], 50),
        ("full", by_level.clone(), 50),
        // The next request comes with the answer: the server never has nothing to do.
        ("overload", by_level, 0),
        ("overload-one-level", one_level, 0),
    ];
    for run in 0..runs {
        for (name, levels, period) in &loads {
            for (_, port) in &settings.servers {
                let Outcome {
                    connections, took, ..
                } = load::run(&Load {
                    port: *port,
                    levels: levels.clone(),
                    rows: 20,
                    period: Duration::from_millis(*period),
                    duration: Duration::from_secs(seconds),
                })?;
                let mut shown: Vec<u8> = levels.clone();
                shown.dedup();
                for level in shown {
                    let point = format!(
                        r#""experiment":"tcp-priority","model":"strict","priority":{level},"load":"{name}","harts":{},"run":{run}"#,
                        settings.harts
                    );
                    let own: Vec<Connection> = connections
                        .iter()
                        .filter(|connection| connection.level == level)
                        .cloned()
                        .collect();
                    show(&point, &own, took);
                }
            }
        }
    }
    Ok(())
}

/// Lets the servers end.
pub(crate) fn end(settings: &Settings) -> Result<()> {
    settings
        .servers
        .iter()
        .try_for_each(|(_, port)| load::end(*port))
}

/// The level of connections that nobody says anything of.
const DEFAULT_LEVEL: u8 = 32;

fn row(point: &str, metric: &str, unit: &str, value: f64) {
    println!(r#"@row {{{point},"metric":"{metric}","unit":"{unit}","value":{value}}}"#);
}

fn show(point: &str, connections: &[Connection], took: Duration) {
    let sum = |of: fn(&Connection) -> u64| connections.iter().map(of).sum::<u64>() as f64;
    let mut latencies: Vec<f64> = connections
        .iter()
        .flat_map(|connection| &connection.latencies)
        .map(|latency| latency.as_secs_f64() * 1e3)
        .collect();
    latencies.sort_by(f64::total_cmp);
    row(
        point,
        "throughput",
        "requests/s",
        latencies.len() as f64 / took.as_secs_f64(),
    );
    row(
        point,
        "wrong-answers",
        "requests",
        sum(|connection| connection.wrong),
    );
    row(
        point,
        "lost-answers",
        "requests",
        sum(|connection| connection.lost),
    );
    let Some(statistics) = Statistics::of(&latencies) else {
        return;
    };
    row(point, "latency-mean", "ms", statistics.mean);
    row(point, "latency-p50", "ms", statistics.p50);
    row(point, "latency-p99", "ms", statistics.p99);
    row(point, "jitter", "ms", statistics.deviation);
}

/// Of latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Statistics {
    mean: f64,
    p50: f64,
    p99: f64,
    /// The standard deviation: what the results call jitter.
    deviation: f64,
}

impl Statistics {
    /// Of values in ascending order; `None` of none.
    fn of(sorted: &[f64]) -> Option<Self> {
        if sorted.is_empty() {
            return None;
        }
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let variance = sorted
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>()
            / count;
        let rank = |share: f64| sorted.get((share * count).ceil() as usize - 1).copied();
        Some(Self {
            mean,
            p50: rank(0.5)?,
            p99: rank(0.99)?,
            deviation: variance.sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics() {
        assert_eq!(Statistics::of(&[]), None);
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let found = Statistics::of(&values).unwrap();
        assert_eq!((found.mean, found.p50, found.p99), (50.5, 50.0, 99.0));
        let alike = Statistics::of(&[2.0, 2.0]).unwrap();
        assert_eq!((alike.deviation, alike.p99), (0.0, 2.0));
    }
}
