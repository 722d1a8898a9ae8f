//! Spans that live across polls, names of coroutines, and events of blocked workers.

#![cfg(all(feature = "tracing", not(loom)))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use corank_linux::trace::spawn_named;
use corank_linux::{Builder, Priority, spawn, spawn_blocking, yield_now};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument, Level, Subscriber, debug, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// Records each event, with the spans around it from outside in, and each closed span.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

/// The fields of a span or an event, as `name=value`.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Log {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let span = context.span(id).unwrap();
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = String::new();
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            let extensions = span.extensions();
            let fields = extensions.get::<Fields>().unwrap();
            line.push_str(&format!("{}{{{}}} ", span.name(), fields.0.trim()));
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = event.metadata().level();
        self.0
            .lock()
            .unwrap()
            .push(format!("{line}{level}{}", fields.0));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let name = context.span(&id).unwrap().name();
        self.0.lock().unwrap().push(format!("closed {name}"));
    }
}

impl Log {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn level(level: u8) -> Priority {
    Priority::new(level).unwrap()
}

/// One test, because the subscriber is the whole process's.
#[test]
fn coroutines_have_spans_and_names() {
    let log = Log::default();
    tracing::subscriber::set_global_default(Registry::default().with(log.clone())).unwrap();
    assert!(tracing::enabled!(Level::DEBUG));
    let runtime = Builder::new().workers(2).build().unwrap();

    // A span of another crate lives across polls, on any worker; events of other coroutines are not
    // in it.
    runtime.block_on(async {
        let guest = |number: u8| {
            let span = info_span!("guest", number);
            let work = async move {
                for round in 0..3 {
                    debug!(round, number);
                    yield_now().await;
                }
                spawn_blocking(move || debug!(blocking = number))
                    .await
                    .unwrap();
            };
            spawn(level(10), work.instrument(span)).unwrap()
        };
        for guest in [guest(1), guest(2)] {
            guest.await.unwrap();
        }
    });
    let lines = log.lines();
    for number in [1, 2] {
        let inside = format!("guest{{number={number}}} DEBUG");
        let rounds = lines
            .iter()
            .filter(|line| line.contains(&inside))
            .collect::<Vec<_>>();
        assert_eq!(rounds.len(), 4, "{lines:#?}");
        for (round, line) in rounds.iter().enumerate() {
            // Inside the span in which it was spawned.
            let outer = "coroutine{name=\"trace::coroutines_have_spans_and_names::{{closure}}\" level=32 id=";
            assert!(line.starts_with(outer), "{line}");
            let wanted = match round {
                3 => format!(" blocking={number}"),
                _ => format!(" round={round} number={number}"),
            };
            assert!(line.ends_with(&wanted), "{line}");
        }
    }

    // Names, and the identifier that the handle has; closed when it is over.
    log.0.lock().unwrap().clear();
    let id = runtime.block_on(async {
        let named = spawn_named("writer", level(3), async { debug!("writes") }).unwrap();
        let id = named.id();
        named.await.unwrap();
        id
    });
    let lines = log.lines();
    let writes = lines.iter().find(|line| line.contains("writes")).unwrap();
    let span = format!("coroutine{{name=\"writer\" level=3 id={id:?}}}");
    assert!(writes.contains(&span), "{writes}");
    assert!(lines.iter().any(|line| line == "closed coroutine"));

    // A poll that does not end is reported meanwhile.
    log.0.lock().unwrap().clear();
    let hook = corank_linux::trace::blocked;
    let named = Builder::new().workers(1).name("held");
    let held = named
        .on_blocked(Duration::from_millis(2), hook)
        .build()
        .unwrap();
    let seen = log.clone();
    let line = held.block_on(async move {
        let began = Instant::now();
        loop {
            let lines = seen.lines();
            let reported = lines.iter().find(|line| line.contains("WARN"));
            if let Some(line) = reported {
                return line.clone();
            }
            assert!(began.elapsed() < LONG, "{lines:#?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    for field in [
        "worker=\"held-0\"",
        "level=32",
        "message=held-0 has been inside one poll",
    ] {
        assert!(line.contains(field), "{line}");
    }
}
