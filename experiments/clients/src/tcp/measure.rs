//! The loads that are run, and what is printed of them.

use crate::dialogue::{Kind, Until};
use crate::load::{self, DEFAULT_LEVEL, Group, Open};
use crate::outcome::{Outcome, row};
use anyhow::{Context, Result};
use std::net::SocketAddrV4;
use std::str::FromStr;
use std::time::Duration;

/// Settings from the command line.
pub(crate) struct Settings {
    /// Harts of the machine, for the rows.
    pub(crate) harts: u32,
    pub(crate) quick: bool,
    /// Memory of the machine, for the rows.
    pub(crate) memory: String,
    /// The models, and the addresses at which they are reached.
    pub(crate) servers: Vec<(String, SocketAddrV4)>,
}

impl Settings {
    /// Returns the models, beginning with another one each turn.
    fn in_turn(&self, turn: usize) -> impl Iterator<Item = &(String, SocketAddrV4)> {
        let count = self.servers.len();
        self.servers
            .iter()
            .cycle()
            .skip(turn % count.max(1))
            .take(count)
    }
}

/// Pace at which requests follow each other.
struct Pace {
    /// Time from one request of a connection to the next, in milliseconds.
    period: u64,
    /// Requests of a connection that are under way at once.
    window: usize,
}

/// The paces of the measurements.
///
/// The first is that of COPS, section 5.1. In the second the next request follows each answer, so
/// that the round trip is measured. In the third more requests are under way than the message
/// buffers of the server hold, so that no task of the server ever waits for the network between.
const PACES: [Pace; 3] = [
    Pace {
        period: 100,
        window: 1,
    },
    Pace {
        period: 0,
        window: 1,
    },
    Pace {
        period: 0,
        window: 16,
    },
];

/// One of several parts of a long measurement, each of which takes about as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Number of the part, from 0 on.
    number: usize,
    count: usize,
}

impl Part {
    pub(crate) const WHOLE: Self = Self {
        number: 0,
        count: 1,
    };

    /// Returns the share of `all` that belongs to this part.
    fn of<T>(self, all: &[T]) -> &[T] {
        let at = |number| all.len() * number / self.count;
        &all[at(self.number)..at(self.number + 1)]
    }
}

impl FromStr for Part {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let part = || -> Option<Self> {
            let (number, count) = text.split_once('/')?;
            let number = number.parse::<usize>().ok()?.checked_sub(1)?;
            let count = count.parse().ok()?;
            (number < count).then_some(Self { number, count })
        };
        part().with_context(|| format!("`{text}` is no part: 1/3 is the first of three"))
    }
}

/// Slices of time in which one server is measured before the next one has its turn, of a load
/// without a period.
const SLICES: u32 = 4;
/// Time before the first of them, which is not measured.
const WARM_UP: Duration = Duration::from_millis(100);

/// One run, in which all points of a pace are measured.
struct Run {
    /// Number of the run, from 0 on.
    number: u32,
    pace: &'static Pace,
    /// Time for which each load is kept up.
    duration: Duration,
}

/// Returns all runs of `models`.
///
/// A whole one measures each thing that is compared three times. Where there is a period, the
/// server has time for all that it is asked, and what is measured are latencies.
fn runs(quick: bool) -> Vec<Run> {
    let runs = |pace: &'static Pace| {
        let (runs, milliseconds) = match pace.period {
            0 if !quick => (3, 500),
            _ => (1, 1000),
        };
        (0..runs).map(move |number| Run {
            number,
            pace,
            duration: Duration::from_millis(milliseconds),
        })
    };
    PACES.iter().flat_map(runs).collect()
}

/// Measures the loads of COPS, section 5.1.
///
/// The models that are compared are measured in turn, and each time another one begins.
pub(crate) fn models(settings: &Settings, part: Part) -> Result<()> {
    let (connections, matrices): (&[usize], &[u16]) = if settings.quick {
        (&[1, 8, 64], &[1, 20])
    } else {
        (&[1, 8, 16, 32, 64, 96, 128], &[1, 15, 20])
    };
    warm_up(settings)?;
    for run in part.of(&runs(settings.quick)) {
        let Pace { period, window } = *run.pace;
        let points = matrices
            .iter()
            .flat_map(|rows| connections.iter().map(move |count| (*rows, *count)));
        for (turn, (rows, count)) in points.enumerate() {
            let kinds = vec![Kind::new(DEFAULT_LEVEL, period, window); count];
            // Whole periods, where there are some.
            let slices = if period == 0 { SLICES } else { 1 };
            let servers: Vec<_> = settings.in_turn(turn + run.number as usize).collect();
            let outcomes = by_turns(&servers, &kinds, rows, run.duration / slices, slices)?;
            for ((model, _), outcome) in servers.iter().zip(outcomes) {
                outcome.show(&format!(
                    r#""experiment":"tcp-models","model":"{model}","connections":{count},"matrix":{rows},"period":{period},"window":{window},"harts":{},"run":{}"#,
                    settings.harts, run.number
                ));
            }
        }
    }
    Ok(())
}

/// Returns the order of `count` items in one of their turns.
///
/// In as many turns as there are items, each is once in every place and, if their number is even,
/// once right behind every other one (the Latin square of Williams, 1949).
fn order(count: usize, turn: usize) -> impl Iterator<Item = usize> {
    // 0, 1, n - 1, 2, n - 2, …
    let first = move |place: usize| {
        if place % 2 == 1 {
            place.div_ceil(2)
        } else {
            count - place / 2
        }
    };
    (0..count).map(move |place| (first(place) + turn) % count)
}

/// Measures servers that each have connections of these kinds: in slices, by turns.
///
/// So other work of the computer, and caches that the server before has filled, affect all of them
/// alike.
fn by_turns(
    servers: &[&(String, SocketAddrV4)],
    kinds: &[Kind],
    rows: u16,
    slice: Duration,
    slices: u32,
) -> Result<Vec<Outcome>> {
    let mut groups = Vec::new();
    for (_, server) in servers {
        let mut group = Group::open(*server, kinds, rows)?;
        let before = group.converse(Until::Over(WARM_UP))?;
        groups.push((group, Outcome::new(slice, before)));
    }
    for turn in 0..slices as usize {
        for next in order(servers.len(), turn) {
            let (group, outcome) = &mut groups[next];
            outcome.add(group.converse(Until::Over(slice))?);
        }
    }
    let end = |(group, outcome): (Group, Outcome)| Ok(outcome.with_end(group.end()?));
    groups.into_iter().map(end).collect()
}

/// Runs a load on each server without measuring it.
///
/// The machine's processor is emulated, and code is translated when it first runs. The first
/// measured server would pay for the code that all share.
fn warm_up(settings: &Settings) -> Result<()> {
    for (_, server) in &settings.servers {
        let kinds = [Kind::new(DEFAULT_LEVEL, 0, 16); 8];
        let mut group = Group::open(*server, &kinds, 20)?;
        group.converse(Until::Over(Duration::from_millis(300)))?;
        group.end()?;
    }
    Ok(())
}

/// A single load, to examine by hand.
pub(crate) struct One {
    pub(crate) connections: usize,
    pub(crate) rows: u16,
    /// Period in milliseconds.
    pub(crate) period: u64,
    pub(crate) window: usize,
    pub(crate) seconds: u64,
}

/// Runs one load for each of the servers.
pub(crate) fn one(load: &One, servers: &[(String, SocketAddrV4)]) -> Result<()> {
    let kinds = vec![Kind::new(DEFAULT_LEVEL, load.period, load.window); load.connections];
    for (model, server) in servers {
        at_once(*server, &kinds, load.rows, load.seconds)?.show(&format!(
            r#""model":"{model}","connections":{}"#,
            load.connections
        ));
    }
    Ok(())
}

/// Measures one server for this many seconds on end.
fn at_once(server: SocketAddrV4, kinds: &[Kind], rows: u16, seconds: u64) -> Result<Outcome> {
    let duration = Duration::from_secs(seconds);
    let mut group = Group::open(server, kinds, rows)?;
    let mut outcome = Outcome::new(duration, Vec::new());
    outcome.add(group.converse(Until::Over(duration))?);
    Ok(outcome.with_end(group.end()?))
}

/// Measures the loads of COPS, section 5.2: 128 connections, 16 of each of 8 levels, a request each
/// 50 ms.
///
/// Three more loads are the connections of level 0 alone, all with those of the other levels asking
/// without a pause, and the same with all at one level.
pub(crate) fn priorities(settings: &Settings) -> Result<()> {
    const LEVELS: u8 = 8;
    const EACH: usize = 16;
    const PERIOD: u64 = 50;
    let (seconds, runs) = if settings.quick { (2, 1) } else { (4, 3) };
    // The paced ones stay so, because the question is how they fare beside those that take all that
    // they can get.
    let load = |level: fn(u8) -> u8, pace: fn(u8) -> (u64, usize)| -> Vec<Kind> {
        let kind = |own: u8| {
            let (period, window) = pace(own);
            Kind::new(level(own), period, window)
        };
        // In turn, because connections begin one behind the other, spread over the period. So those
        // of each level are spread too, as if they were alone.
        (0..EACH).flat_map(|_| (0..LEVELS).map(kind)).collect()
    };
    // Two requests under way: one is there while the other is answered.
    let greedy = |level: u8| if level == 0 { (PERIOD, 1) } else { (0, 2) };
    let loads = [
        ("level-0-alone", vec![Kind::new(0, PERIOD, 1); EACH]),
        ("full", load(|level| level, |_| (PERIOD, 1))),
        ("overload", load(|level| level, greedy)),
        ("overload-one-level", load(|_| LEVELS / 2, greedy)),
    ];
    warm_up(settings)?;
    for run in 0..runs {
        for (turn, (name, kinds)) in loads.iter().enumerate() {
            for (model, server) in settings.in_turn(turn + run) {
                let outcome = at_once(*server, kinds, 20, seconds)?;
                let mut shown: Vec<u8> = kinds.iter().map(|kind| kind.level).collect();
                shown.sort_unstable();
                shown.dedup();
                for level in shown {
                    outcome.of_level(level).show_in_detail(&format!(
                        r#""experiment":"tcp-priority","model":"{model}","priority":{level},"load":"{name}","harts":{},"run":{run}"#,
                        settings.harts
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Measures how many connections one server takes before one is refused or not answered.
///
/// It also measures what each of them takes, of all memory and in futures. The machine is a fresh
/// one, because what was in use before would be used again.
pub(crate) fn fill(settings: &Settings) -> Result<()> {
    /// From here to there memory and kernel coroutines are counted. What a server needs only once
    /// exists by then.
    const COUNTED: (usize, usize) = (100, 200);
    const MOST: usize = 4000;
    const LIMIT: Duration = Duration::from_secs(3);
    for (model, server) in &settings.servers {
        let mut open = Open::new();
        let mut coroutines = Vec::new();
        while open.count() < MOST && open.another(*server, LIMIT) {
            if [COUNTED.0, COUNTED.1].contains(&open.count()) {
                coroutines.push(load::state(*server)?);
            }
        }
        let harts = settings.harts;
        let point = format!(
            r#""experiment":"tcp-models","model":"{model}","memory":"{}","harts":{harts}"#,
            settings.memory
        );
        row(
            &point,
            "max-connections",
            "connections",
            open.count() as f64,
        );
        let [before, after] = coroutines[..] else {
            continue;
        };
        let memory = after.memory.saturating_sub(before.memory);
        let each = memory as f64 / (COUNTED.1 - COUNTED.0) as f64;
        row(&point, "bytes-per-connection", "bytes", each);
        // Where the kernel has a coroutine for each connection, its futures are not known here.
        if after.coroutines == before.coroutines && after.futures > 0 {
            let bytes = after.futures + after.waiting_read;
            row(&point, "futures-per-connection", "bytes", bytes as f64);
        }
    }
    Ok(())
}

/// Lets the servers end.
pub(crate) fn end(settings: &Settings) -> Result<()> {
    settings
        .servers
        .iter()
        .try_for_each(|(_, server)| load::end(*server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_a_whole_run() {
        let all: Vec<u32> = (0..10).collect();
        assert_eq!(Part::WHOLE.of(&all), all);
        let parts = ["1/3", "2/3", "3/3"].map(|part| part.parse::<Part>().unwrap());
        assert_eq!(parts.map(|part| part.of(&all)).concat(), all);
        for wrong in ["", "1", "0/3", "4/3", "1/0", "a/b"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_runs_of_a_whole_measurement_come_in_as_many_parts() {
        assert_eq!(runs(true).len(), PACES.len());
        // As many as the experiment asks for (xtask/src/experiment/tcp.rs).
        assert_eq!(runs(false).len(), 7);
    }

    #[test]
    fn every_client_follows_every_other() {
        let turns: Vec<Vec<usize>> = (0..4).map(|turn| order(4, turn).collect()).collect();
        for place in 0..4 {
            let mut there: Vec<usize> = turns.iter().map(|turn| turn[place]).collect();
            there.sort_unstable();
            assert_eq!(there, [0, 1, 2, 3]);
        }
        let mut pairs: Vec<&[usize]> = turns.iter().flat_map(|turn| turn.windows(2)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 12);
        assert_eq!(order(1, 3).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn models_begin_in_turn() {
        let servers = ["a", "b", "c"].map(|name| (name.to_string(), "0.0.0.0:1".parse().unwrap()));
        let settings = Settings {
            harts: 1,
            quick: true,
            memory: String::new(),
            servers: servers.to_vec(),
        };
        let order = |turn| {
            settings
                .in_turn(turn)
                .map(|server| &*server.0)
                .collect::<String>()
        };
        assert_eq!([0, 1, 2, 3].map(order), ["abc", "bca", "cab", "abc"]);
    }
}
