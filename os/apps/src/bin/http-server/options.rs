//! Options that the server gets when it is started.
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Display;
use core::str::FromStr;
use core::time::Duration;

use corank_http::level::Levels;
use corank_user::{Priority, fs};

/// Text that `--help` prints.
pub(crate) const HELP: &str = "\
usage: http-server [OPTIONS]

Serves the files of the disk over HTTP/1.1, until q is typed or the process is killed.

  --port PORT           where it listens [80]
  --root DIRECTORY      what is / for clients [/]
  --level PREFIX=LEVEL  how urgent paths are that begin so: 0, the most urgent, to 63;
                        may be given several times, and the longest prefix counts
  --config FILE         such rules, one on each line
  --other LEVEL         how urgent all other paths are [32]
  --connections COUNT   so many at a time, others wait [128]
  --request-limit SECS  a request must be there in that time [10]
  --idle-limit SECS     an idle connection is closed after that time [30]
  --send-limit SECS     a client must take 16 KiB in that time [30]
  --no-listing          directories without an index.html are not shown
  --log                 prints a line for each answer
  --count               compares the memory in use afterwards with that before
  --control PORT        takes orders, one on each line: `hello`; `status`; `stop`;
                        `hold` lets requests wait until `go`;
                        `fault memory N`, `fault end N`, for tests";

/// The options that [`HELP`] describes.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) port: u16,
    /// Root directory, without a `/` at its end.
    pub(crate) root: String,
    pub(crate) levels: Levels,
    pub(crate) connections: usize,
    pub(crate) request_limit: Duration,
    pub(crate) idle_limit: Duration,
    pub(crate) send_limit: Duration,
    pub(crate) listing: bool,
    pub(crate) log: bool,
    pub(crate) count: bool,
    pub(crate) control: Option<u16>,
}

impl Options {
    /// Reads the arguments; returns `None` if they ask for help.
    ///
    /// # Errors
    /// Says what is wrong, and what to write instead.
    pub(crate) fn from<'a>(
        mut arguments: impl Iterator<Item = &'a str>,
    ) -> Result<Option<Self>, String> {
        let mut options = Self {
            port: 80,
            root: String::new(),
            levels: Levels::new(Priority::DEFAULT.level()),
            connections: 128,
            request_limit: Duration::from_secs(10),
            idle_limit: Duration::from_secs(30),
            send_limit: Duration::from_secs(30),
            listing: true,
            log: false,
            count: false,
            control: None,
        };
        while let Some(name) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("{name} needs a value; see http-server --help"))
            };
            match name {
                "--help" | "-h" => return Ok(None),
                "--port" => options.port = number(name, value()?, 1, u16::MAX)?,
                "--root" => options.root = directory(value()?)?,
                "--level" => options.levels.add(value()?).map_err(text)?,
                "--config" => options.configure(value()?)?,
                "--other" => options.levels.set_other(number(name, value()?, 0, 63)?),
                "--connections" => options.connections = number(name, value()?, 1, 1000)?,
                "--request-limit" => options.request_limit = seconds(name, value()?)?,
                "--idle-limit" => options.idle_limit = seconds(name, value()?)?,
                "--send-limit" => options.send_limit = seconds(name, value()?)?,
                "--no-listing" => options.listing = false,
                "--log" => options.log = true,
                "--count" => options.count = true,
                "--control" => options.control = Some(number(name, value()?, 1, u16::MAX)?),
                _ => return Err(format!("there is no option {name}; see http-server --help")),
            }
        }
        Ok(Some(options))
    }

    fn configure(&mut self, file: &str) -> Result<(), String> {
        let content = fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        let content = core::str::from_utf8(&content).map_err(|error| format!("{file}: {error}"))?;
        let added = self.levels.add_all(content);
        added.map_err(|error| format!("{file}: {error}"))
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn number<T: FromStr + PartialOrd + Display>(
    name: &str,
    value: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match value.parse() {
        Ok(number) if least <= number && number <= most => Ok(number),
        _ => Err(format!(
            "{name} takes a number from {least} to {most}, not {value}"
        )),
    }
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    number(name, value, 1, 86_400).map(Duration::from_secs)
}

fn directory(path: &str) -> Result<String, String> {
    match fs::status(path) {
        Ok(status) if fs::is_directory(&status) => Ok(path.trim_end_matches('/').to_string()),
        Ok(_) => Err(format!("{path} is no directory")),
        Err(error) => Err(format!("{path}: {error}")),
    }
}
