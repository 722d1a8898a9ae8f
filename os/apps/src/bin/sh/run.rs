//! Running what a line says.
use crate::line::{Command, Kind, Pipeline, When, parse};
use crate::words::{Word, split};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use corank_user::fs::{self, Options};
use corank_user::io::{OwnedFd, Pipe};
use corank_user::process::{self, Pid, Rights};
use corank_user::{eprintln, println};

/// Exit code where there is no such program.
const NOT_FOUND: i32 = 127;
/// Exit code of a line that makes no sense, and of a built-in command that was called wrongly.
const USAGE: i32 = 2;

/// State that the shell keeps from line to line.
pub(crate) struct Shell {
    /// Exit code of the last command: `$?`.
    pub(crate) last_code: i32,
    /// Tells whether `exit` has been called.
    pub(crate) is_over: bool,
    /// Tells whether the shell reads from the console, and gives the console to what runs in front.
    has_console: bool,
    /// Processes in the background.
    jobs: Vec<Pid>,
    /// `$!`
    last_job: Option<Pid>,
}

impl Shell {
    pub(crate) fn new() -> Shell {
        Shell {
            last_code: 0,
            is_over: false,
            has_console: false,
            jobs: Vec::new(),
            last_job: None,
        }
    }

    /// Takes the console: from now on Ctrl-C ends what runs in front.
    ///
    /// A shell that another one runs has each byte as it is typed, too.
    pub(crate) fn take_console(&mut self) {
        self.has_console = true;
        let _ = process::set_foreground(0);
    }

    /// Returns the prompt that stands in front of a line that is typed.
    pub(crate) fn prompt(&self) -> String {
        let directory = fs::current_directory().unwrap_or_default();
        format!("{directory} $ ")
    }

    /// Runs a line.
    pub(crate) fn run_line(&mut self, line: &str) {
        let pipelines = split(line).and_then(|tokens| parse(tokens).map_err(String::from));
        match pipelines {
            Ok(pipelines) => {
                for pipeline in &pipelines {
                    self.run_pipeline(pipeline);
                    if self.is_over {
                        return;
                    }
                }
            }
            Err(what) => {
                eprintln!("sh: {what}");
                self.last_code = USAGE;
            }
        }
    }

    /// Returns the value that `$` and a character stand for.
    fn value(&self, name: char) -> String {
        match (name, self.last_job) {
            ('?', _) => self.last_code.to_string(),
            (_, Some(job)) => job.to_string(),
            (_, None) => String::new(),
        }
    }

    fn run_pipeline(&mut self, pipeline: &Pipeline) {
        let runs = match pipeline.when {
            When::Always => true,
            When::AfterSuccess => self.last_code == 0,
            When::AfterFailure => self.last_code != 0,
        };
        if !runs {
            return;
        }
        if let [command] = pipeline.commands.as_slice()
            && let Some(code) = self.run_built_in(command)
        {
            self.last_code = code;
            return;
        }
        let children = self.start(pipeline);
        if pipeline.background {
            self.last_job = children.last().copied();
            if let (true, Some(job)) = (self.has_console, self.last_job) {
                println!("[{job}]");
            }
            self.jobs.extend(children);
            self.last_code = 0;
            return;
        }
        for child in &children {
            self.last_code = process::wait(*child).map_or(NOT_FOUND, |exited| exited.code);
        }
        if self.has_console {
            let _ = process::set_foreground(0);
            self.report_signal();
        }
    }

    /// Reports how the kernel has ended the last command, where the command itself could not.
    fn report_signal(&self) {
        if let Some(what) = process::cause(self.last_code) {
            println!("{what}");
        }
    }

    /// Starts all programs of a pipeline, in a group of their own.
    fn start(&mut self, pipeline: &Pipeline) -> Vec<Pid> {
        let mut children = Vec::new();
        let in_front = self.has_console && !pipeline.background;
        let mut input = if pipeline.background {
            // No input: the console is for what runs in front.
            Pipe::new().ok().map(|pipe| pipe.reader)
        } else {
            None
        };
        for (number, command) in pipeline.commands.iter().enumerate() {
            let is_last = number + 1 == pipeline.commands.len();
            let pipe = match (!is_last).then(Pipe::new).transpose() {
                Ok(pipe) => pipe,
                Err(error) => {
                    eprintln!("sh: {error}");
                    break;
                }
            };
            let (next, output) =
                pipe.map_or((None, None), |pipe| (Some(pipe.reader), Some(pipe.writer)));
            let group = children.first().copied().unwrap_or(0);
            // The child's ends of pipes, which its own copies of ours must not keep open.
            let foreign = next.as_ref().map(|end| end.number());
            let child = process::spawn(|| {
                if group == 0 {
                    let _ = process::set_group(0, 0);
                }
                if in_front && group == 0 {
                    // Only the child does this. If the shell were slower, it would undo what the
                    // program says of the console.
                    let _ = process::set_foreground(process::id());
                }
                // A program has nothing to do with other jobs, and one in the background nothing
                // with the console.
                let rights = match pipeline.background {
                    true => Rights::NONE,
                    false => Rights::CONSOLE,
                };
                let _ = process::restrict(process::id(), rights);
                foreign.map(OwnedFd::from_number);
                self.run_child(command, input.take(), output)
            });
            input = next;
            match child {
                Ok(child) => {
                    // The first child does it too, and either may come first.
                    let _ = process::set_group(child, group);
                    children.push(child);
                }
                Err(error) => {
                    eprintln!("sh: {error}");
                    self.last_code = NOT_FOUND;
                    break;
                }
            }
        }
        children
    }

    fn words(&self, command: &Command) -> Vec<String> {
        let expanded = |word: &Word| word.expand(|name| self.value(name));
        command.words.iter().map(expanded).collect()
    }

    /// Runs a command that is part of the shell; returns `None` if it is not.
    fn run_built_in(&mut self, command: &Command) -> Option<i32> {
        let words = self.words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(match words.as_slice() {
            ["exit"] => {
                self.is_over = true;
                self.last_code
            }
            ["exit", code] => match code.parse() {
                Ok(code) => {
                    self.is_over = true;
                    code
                }
                Err(_) => usage("exit [CODE]"),
            },
            ["cd"] => change_directory("/"),
            ["cd", path] => change_directory(path),
            ["pwd"] => {
                println!("{}", fs::current_directory().unwrap_or_default());
                0
            }
            ["wait"] => {
                for job in self.jobs.drain(..) {
                    let _ = process::wait(job);
                }
                0
            }
            ["kill", arguments @ ..] => kill(arguments),
            ["help"] => {
                println!("{HELP}");
                0
            }
            ["exit", ..] => usage("exit [CODE]"),
            ["cd", ..] => usage("cd [PATH]"),
            _ => return None,
        })
    }

    /// Runs a child: sets up its files, then starts its program. Returns only if that fails.
    fn run_child(&self, command: &Command, input: Option<OwnedFd>, output: Option<OwnedFd>) -> i32 {
        become_descriptor(0, input);
        become_descriptor(1, output);
        for redirection in &command.redirections {
            let path = redirection.path.expand(|name| self.value(name));
            match open(redirection.kind, &path) {
                Ok(file) => become_descriptor(redirection.descriptor, Some(file)),
                Err(error) => {
                    eprintln!("sh: {path}: {error}");
                    return 1;
                }
            }
        }
        let words = self.words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        process::exec(words[0], &words);
        match fs::status(words[0]) {
            Ok(_) => {
                eprintln!("sh: {} is no program for this machine", words[0]);
                NOT_FOUND - 1
            }
            Err(_) => {
                eprintln!("sh: there is no program {}", words[0]);
                NOT_FOUND
            }
        }
    }

    /// Reports which jobs in the background have ended, and forgets them.
    ///
    /// The first process inherits children of ended parents, and the shell may be that process.
    pub(crate) fn report_ended(&mut self) {
        while let Ok(Some(exited)) = process::try_wait_any() {
            if let Some(place) = self.jobs.iter().position(|job| *job == exited.pid) {
                self.jobs.remove(place);
                println!("[{}] ended with code {}", exited.pid, exited.code);
            }
        }
    }
}

const HELP: &str =
    "programs: those of `ls /` and of the archive; built in: cd exit help kill pwd wait
a | b   a < in   a > out   a >> out   a 2> out   a &   a ; b   a && b   a || b   'quoted'   \"$?\"";

fn usage(text: &str) -> i32 {
    eprintln!("usage: {text}");
    USAGE
}

/// The signal that `kill` sends by default.
const TERMINATE: u32 = 15;

/// Ends processes.
///
/// A program could not, because only the shell is the jobs' parent.
fn kill(arguments: &[&str]) -> i32 {
    const USAGE: &str = "kill [-SIGNAL] PID...";
    let (signal, pids) = match arguments.split_first() {
        Some((first, rest)) if first.starts_with('-') => (first[1..].parse().ok(), rest),
        _ => (Some(TERMINATE), arguments),
    };
    let (Some(signal), false) = (signal, pids.is_empty()) else {
        return usage(USAGE);
    };
    let mut code = 0;
    for word in pids {
        let Ok(pid) = word.parse() else {
            return usage(USAGE);
        };
        if process::kill(pid, signal).is_err() {
            eprintln!("kill: {word}: there is no such process, or it is none of this shell's");
            code = 1;
        }
    }
    code
}

fn change_directory(path: &str) -> i32 {
    match fs::change_directory(path) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("cd: {path}: {error}");
            1
        }
    }
}

fn open(kind: Kind, path: &str) -> Result<OwnedFd, corank_user::Error> {
    let options = match kind {
        Kind::Read => Options::read(),
        Kind::Write => Options::write().create().truncate(),
        Kind::Append => Options::write().create().append(),
    };
    options.open(path).map(fs::File::into_fd)
}

/// Makes `file` this process's descriptor `number`, below which all are open.
fn become_descriptor(number: usize, file: Option<OwnedFd>) {
    let Some(file) = file else { return };
    drop(OwnedFd::from_number(number));
    if let Ok(copy) = file.duplicate() {
        // The copy has the lowest free number, which is `number`.
        let _ = copy.into_number();
    }
}
