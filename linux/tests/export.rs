//! The exporter with a real recorder, scraped over HTTP, and the dashboard that shows what it
//! exports.

#![cfg(all(feature = "metrics", feature = "hyper", not(loom)))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use corank_linux::metrics::{Exporter, export};
use corank_linux::net::TcpListener;
use corank_linux::{Builder, Priority, Runtime, yield_now};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// The metrics of a runtime that has had a takeover, in Prometheus's text format.
///
/// Level 3 has had one poll, by a spare worker, and level 7 ten.
fn published() -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let runtime = Builder::new()
        .workers(1)
        .name("shop")
        .metrics(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || {
        let mut exporter = Exporter::new(runtime.handle().clone());
        let yields = async {
            for _ in 0..9 {
                yield_now().await;
            }
        };
        let yields = runtime.handle().spawn(Priority::at::<7>(), yields).unwrap();
        runtime.block_on_at(Priority::at::<8>(), yields).unwrap();
        let urgent_ran = runtime.block_on_at(Priority::at::<40>(), async {
            let (run, ran) = mpsc::channel();
            let urgent = async move { run.send(()).unwrap() };
            drop(corank_linux::spawn(Priority::at::<3>(), urgent).unwrap());
            // Inside one poll: a spare worker polls what is urgent.
            ran.recv_timeout(LONG)
        });
        urgent_ran.expect("a spare worker polls it");
        exporter.publish();
    });
    handle.render()
}

/// Returns the value of a metric with these labels, in any order.
fn value(text: &str, name: &str, labels: &[&str]) -> f64 {
    let has_all = |line: &&str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with('{'));
        rest.is_some_and(|rest| labels.iter().all(|label| rest.contains(label)))
    };
    let lines: Vec<&str> = text.lines().filter(has_all).collect();
    let [line] = lines[..] else {
        panic!("{name} {labels:?}: {lines:?} in\n{text}");
    };
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn each_figure_is_published_with_its_labels() {
    let text = published();
    let of = |name, labels: &[&str]| value(&text, name, labels);
    assert_eq!(
        of("corank_polls_total", &[r#"runtime="shop""#, r#"level="7""#]),
        10.0
    );
    assert_eq!(of("corank_polls_total", &[r#"level="3""#]), 1.0);
    assert_eq!(of("corank_inversions_total", &[r#"level="3""#]), 1.0);
    assert_eq!(of("corank_inversions_total", &[r#"level="7""#]), 0.0);
    assert!(of("corank_inversion_longest_seconds", &[r#"level="3""#]) > 0.0);
    assert!(of("corank_inversion_share", &[r#"level="3""#]) > 0.0);
    let p50 = of(
        "corank_wait_seconds",
        &[r#"level="7""#, r#"quantile="0.5""#],
    );
    let p99 = of(
        "corank_wait_seconds",
        &[r#"level="7""#, r#"quantile="0.99""#],
    );
    assert!(0.0 < p50 && p50 <= p99 && p99 < LONG.as_secs_f64());
    assert!(p99 <= of("corank_wait_longest_seconds", &[r#"level="7""#]));
    assert_eq!(of("corank_ready", &[r#"level="7""#]), 0.0);
    let share = of(
        "corank_worker_busy_share",
        &[r#"worker="shop-0""#, r#"role="worker""#],
    );
    assert!(0.0 < share && share <= 1.0);
    assert!(of("corank_spare_takeovers_total", &[r#"runtime="shop""#]) >= 1.0);
    assert!(of("corank_spare_workers", &[]) >= 1.0);
    assert_eq!(of("corank_waiting", &[]), 0.0);
}

#[test]
fn a_level_without_waits_in_an_interval_has_no_percentile() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let runtime = Builder::new().workers(1).metrics(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        let mut exporter = Exporter::new(runtime.handle().clone());
        runtime.block_on_at(Priority::at::<7>(), yield_now());
        exporter.publish();
        exporter.publish();
    });
    let text = recorder.handle().render();
    let p99 = value(
        &text,
        "corank_wait_seconds",
        &[r#"level="7""#, r#"quantile="0.99""#],
    );
    assert!(p99.is_nan());
    assert_eq!(value(&text, "corank_polls_total", &[r#"level="7""#]), 2.0);
}

/// Answers each request with what the recorder has.
async fn serve(listener: TcpListener, recorder: PrometheusHandle) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let recorder = recorder.clone();
        let answer = service_fn(move |_: Request<Incoming>| {
            let text = recorder.render();
            async move { Ok::<_, Infallible>(Response::new(text)) }
        });
        let connection = http1::Builder::new().serve_connection(stream, answer);
        let _closed = connection.await;
    }
}

fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

/// A coroutine publishes the figures of its runtime, and a server on the same runtime serves them.
#[test]
fn a_running_service_is_scraped_over_http() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    assert!(
        metrics::set_global_recorder(recorder).is_ok(),
        "no test beside this one sets it"
    );
    let runtime = Builder::new()
        .workers(1)
        .name("web")
        .metrics(true)
        .build()
        .unwrap();
    let address = start_server(&runtime, handle);
    let publish = export(runtime.handle().clone(), Duration::from_millis(1));
    drop(
        runtime
            .handle()
            .spawn(Priority::MOST_URGENT, publish)
            .unwrap(),
    );
    // Each publication is a poll at level 0, which a later one shows.
    let begin = Instant::now();
    let polls = |text: &str| {
        let line = text.lines().find(|line| {
            line.starts_with("corank_polls_total{") && line.contains(r#"level="0""#)
        })?;
        line.rsplit_once(' ')?.1.parse::<u64>().ok()
    };
    while polls(&scrape(address)).is_none_or(|polls| polls < 5) {
        assert!(begin.elapsed() < LONG, "nothing is published");
    }
    let text = scrape(address);
    assert!(text.contains("# TYPE corank_polls_total counter"));
    assert!(text.contains("# TYPE corank_ready gauge"));
    assert!(text.contains("# HELP corank_wait_seconds "));
    assert!(text.contains(r#"worker="web-0""#));
}

fn start_server(runtime: &Runtime, recorder: PrometheusHandle) -> SocketAddr {
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(corank_linux::spawn(Priority::DEFAULT, serve(listener, recorder)).unwrap());
        address
    })
}

/// Collects the values of all fields of this name.
fn fields<'a>(value: &'a serde_json::Value, name: &str, found: &mut Vec<&'a serde_json::Value>) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                if key == name {
                    found.push(value);
                }
                fields(value, name, found);
            }
        }
        serde_json::Value::Array(values) => {
            for value in values {
                fields(value, name, found);
            }
        }
        _ => {}
    }
}

/// Returns the metrics of this crate that a query names.
fn named(query: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = query.split(move |letter: char| !is_part(letter));
    words.filter(|word| word.starts_with("corank_"))
}

/// Each metric that the dashboard asks for is exported, and each exported one is shown.
#[test]
fn the_dashboard_shows_what_is_exported() {
    let dashboard = include_str!("../grafana/corank.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let mut queries = Vec::new();
    fields(&dashboard["panels"], "expr", &mut queries);
    let shown: BTreeSet<&str> = (queries.iter())
        .flat_map(|query| named(query.as_str().unwrap()))
        .collect();
    let text = published();
    let exported: BTreeSet<&str> = (text.lines())
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    assert_eq!(shown, exported);
    // So are those that the documentation lists.
    let documented: BTreeSet<&str> = (include_str!("../src/metrics.rs").lines())
        .filter_map(|line| line.strip_prefix("//! | `")?.split('`').next())
        .collect();
    assert_eq!(documented, exported);
    // Each panel has an identifier and a place of its own.
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels.len());
    let places: BTreeSet<String> = panels
        .iter()
        .map(|panel| panel["gridPos"].to_string())
        .collect();
    assert_eq!(places.len(), panels.len());
}
