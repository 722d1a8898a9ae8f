//! The progress of a long job: a bar on a terminal, plain lines elsewhere.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The least time between two plain lines, so that a log stays readable.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// The bars of all jobs under way, below each other on standard error.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// The progress of one job.
///
/// A clone shows in the same place.
#[derive(Clone)]
pub(crate) struct Progress {
    title: String,
    bar: Option<ProgressBar>,
    done: u64,
    total: Option<u64>,
    last_line: Instant,
}

impl Progress {
    /// Shows a job of unknown length: a spinner with the last message.
    pub(crate) fn spinner(title: &str) -> Self {
        let bar = Self::on_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg:.dim}")
                    .expect("a fixed template");
            let bar = BARS.add(ProgressBar::no_length().with_style(style));
            bar.set_prefix(title.to_string());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            title: title.to_string(),
            bar,
            done: 0,
            total: None,
            last_line: Instant::now(),
        }
    }

    fn on_terminal() -> bool {
        std::io::stderr().is_terminal()
    }

    /// Shows a bar from now on, because the length is known.
    pub(crate) fn set_total(&mut self, total: u64) {
        self.total = Some(total);
        if let Some(bar) = &self.bar {
            let style = ProgressStyle::with_template(
                "{prefix} [{bar:30}] {pos}/{len} {eta} {wide_msg:.dim}",
            )
            .expect("a fixed template");
            bar.set_style(style.progress_chars("=> "));
            bar.set_length(total);
        }
    }

    /// Counts one more finished step.
    pub(crate) fn step(&mut self, message: &str) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        self.say(message);
    }

    /// Shows the current activity, on a terminal at once, elsewhere once an interval at most.
    pub(crate) fn say(&mut self, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(message.to_string());
        } else if !message.is_empty() && self.last_line.elapsed() >= PLAIN_INTERVAL {
            self.last_line = Instant::now();
            match self.total {
                Some(total) => eprintln!("   {}: {}/{total} {message}", self.title, self.done),
                None => eprintln!("   {}: {message}", self.title),
            }
        }
    }

    /// Returns the name of the job.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Prints something that stays, above all bars.
    pub(crate) fn interrupt(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(_) => BARS.suspend(print),
            None => print(),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
