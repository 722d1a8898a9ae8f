//! Tests that run on another machine than the host: the operating system, and the Cortex-M4.

use super::Context;
use super::outcome::Outcome;
use crate::firmware;
use crate::os::boot::{Boot, DEFAULT_MEMORY};
use crate::os::build::{self, Image};
use crate::os::disk::Disk;
use crate::os::input::{Input, Line};
use crate::os::network::Network;
use crate::os::scratch_disk::ScratchDisk;
use crate::process;
use crate::repository;
use crate::toolchain::Target;
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The folder of program tests.
///
/// Each file in it is one test: see [`ProgramTest`].
pub(super) const PROGRAM_TESTS: &str = "os/tests";
/// Size of a disk for tests, in bytes: larger than what the tests write at once.
pub(super) const DISK_SIZE: u64 = 64 << 20;
/// The program that tests the system from inside.
const USERTESTS: &str = "usertests";

/// Harts of the machines on which all tests run.
pub(super) const HARTS: [u32; 3] = [1, 2, 4];
/// The mark for the number of harts in what a test expects.
const HARTS_MARK: &str = "{harts}";

/// Runs `usertests`, each time with a new disk, which must be whole afterwards.
pub(super) fn usertests(context: &mut Context) -> Result<Outcome> {
    let image = build::build_for_tests(&mut context.progress)?;
    let mut harts = HARTS.to_vec();
    if context.change.is_some() {
        harts.truncate(1);
    }
    // Two of these machines leave half of two processors idle: many tests wait for times to come.
    context.all_at_once(&harts, |&smp, context| {
        let disk = ScratchDisk::new(&format!("usertests-{smp}"), DISK_SIZE)?;
        let test = ProgramTest {
            run: USERTESTS.to_string(),
            limit: context.limit.as_secs(),
            ..ProgramTest::default()
        };
        let (output, code) = test.boot(smp, &image, Some(disk.attached()))?;
        let counted = Outcome::of_last_line(&output, code == 0);
        if counted.failed > 0 {
            context.show(&format!(
                "{USERTESTS} on {smp} harts ended with code {code}:\n{}",
                tail(&output)
            ));
        }
        let mut outcome = context.fsck(&disk)?;
        outcome.add(counted);
        Ok(outcome)
    })
}

/// One program to run in the operating system, as a file in `os/tests/` describes it.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ProgramTest {
    /// The name of its file.
    ///
    /// Two tests that run at a time have two names.
    #[serde(skip)]
    name: String,
    /// The program and its arguments, with spaces between.
    run: String,
    /// The program and its arguments as a list, for arguments with spaces inside.
    command: Option<Vec<String>>,
    /// Harts of the machine, with one run for each number.
    smp: Vec<u32>,
    /// Memory of the machine.
    memory: String,
    /// Counts instructions, each of which takes 2 to this power nanoseconds.
    ///
    /// Then runs are alike to the instruction.
    count: Option<u8>,
    /// Time limit in seconds.
    limit: u64,
    /// The exit code that is expected.
    exit: u8,
    /// Texts that the output must contain, in this order.
    ///
    /// [`HARTS_MARK`] in them stands for the number of harts.
    expect: Vec<String>,
    /// Texts that the output must not contain.
    reject: Vec<String>,
    /// An ELF file to add to the system's programs, from the repository's root.
    program: Option<PathBuf>,
    /// Whether the machine has a disk, which must be whole afterwards.
    disk: bool,
    /// Whether the machine has a network card, in QEMU's user network.
    network: bool,
    /// The lines that are typed, and when.
    dialogue: Vec<Line>,
}

impl Default for ProgramTest {
    fn default() -> Self {
        Self {
            name: "program".to_string(),
            run: String::new(),
            command: None,
            smp: vec![1],
            memory: DEFAULT_MEMORY.to_string(),
            count: None,
            limit: 30,
            exit: 0,
            expect: Vec::new(),
            reject: vec!["panicked".to_string()],
            program: None,
            disk: false,
            network: false,
            dialogue: Vec::new(),
        }
    }
}

impl ProgramTest {
    /// Makes a test of a program with its arguments, its exit code, and what it must print.
    pub(super) fn expecting(run: &str, exit: u8, expect: &[&str]) -> Self {
        Self {
            run: run.to_string(),
            exit,
            expect: expect.iter().map(|text| text.to_string()).collect(),
            ..Self::default()
        }
    }

    /// Reads the test in a file of [`PROGRAM_TESTS`].
    pub(super) fn of_file(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("can't read {}", path.display()))?;
        let test: Self =
            toml::from_str(&text).with_context(|| format!("{} is not a test", path.display()))?;
        let name = path.file_stem().unwrap_or_default();
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            ..test
        })
    }

    /// Makes a test of a script for the shell, its exit code, and what it must print.
    pub(super) fn script(script: &str, exit: u8, expect: &[&str]) -> Self {
        Self {
            command: Some(["sh", "-c", script].map(str::to_string).to_vec()),
            ..Self::expecting(script, exit, expect)
        }
    }

    /// Returns the same test of another program.
    pub(super) fn running(&self, run: &str) -> Self {
        Self {
            run: run.to_string(),
            ..self.clone()
        }
    }

    /// Returns the same test, with a text that must not be printed.
    pub(super) fn rejecting(mut self, text: &str) -> Self {
        self.reject.push(text.to_string());
        self
    }

    /// Runs it on `smp` harts, and shows what is wrong if it does not do what is expected.
    pub(super) fn judge(
        &self,
        smp: u32,
        image: &Image,
        disk: Option<Disk>,
        context: &mut Context,
    ) -> Result<Outcome> {
        context.progress.say(&self.run);
        let (output, code) = self.boot(smp, image, disk)?;
        Ok(match self.failure(smp, &output, code) {
            None => Outcome::passed(),
            Some(failure) => {
                context.show(&format!(
                    "`{}` on {smp} harts {failure}; it printed:\n{}",
                    self.run,
                    tail(&output)
                ));
                Outcome::failed()
            }
        })
    }

    /// Boots it on `smp` harts, and returns its output and its exit code.
    pub(super) fn boot(&self, smp: u32, image: &Image, disk: Option<Disk>) -> Result<(String, u8)> {
        let boot = Boot {
            smp,
            memory: self.memory.clone(),
            count: self.count,
            limit: Some(Duration::from_secs(self.limit)),
            disk,
            network: self.network.then(|| Network::with(&[])).transpose()?,
            input: if self.dialogue.is_empty() {
                Input::None
            } else {
                Input::Dialogue(self.dialogue.clone())
            },
            command: self
                .command
                .clone()
                .unwrap_or_else(|| self.run.split_whitespace().map(str::to_string).collect()),
        };
        let mut output = Vec::new();
        let ended = boot.run(image, |bytes| output.extend_from_slice(bytes));
        let output = String::from_utf8_lossy(&output).replace('\r', "");
        match ended {
            Ok(ended) => Ok((output, ended.code)),
            Err(error) => Err(error.context(format!("`{}` printed:\n{}", self.run, tail(&output)))),
        }
    }

    /// Runs it on `smp` harts, with a new disk if it has one, and returns what is wrong, if
    /// anything is.
    pub(super) fn on(
        &self,
        smp: u32,
        image: &Image,
        context: &mut Context,
    ) -> Result<Option<String>> {
        let disk = match self.disk {
            true => Some(ScratchDisk::new(&self.name, DISK_SIZE)?),
            false => None,
        };
        let (output, code) = self.boot(smp, image, disk.as_ref().map(ScratchDisk::attached))?;
        if let Some(disk) = &disk
            && context.fsck(disk)?.failed > 0
        {
            return Ok(Some("leaves a disk that is not whole".to_string()));
        }
        Ok(self
            .failure(smp, &output, code)
            .map(|failure| format!("{failure}; it printed:\n{}", tail(&output))))
    }

    /// Does all runs for which the test asks, and returns what is wrong with one of them, if
    /// anything is.
    fn on_each(&self, image: &Image, context: &mut Context) -> Result<Option<String>> {
        for &smp in &self.smp {
            if let Some(failure) = self.on(smp, image, context)? {
                return Ok(Some(format!("on {smp} harts it {failure}")));
            }
        }
        Ok(None)
    }

    /// Returns what is wrong with a run on `smp` harts, if anything is.
    fn failure(&self, smp: u32, output: &str, code: u8) -> Option<String> {
        if code != self.exit {
            return Some(format!("ended with code {code} instead of {}", self.exit));
        }
        if let Some(found) = self
            .reject
            .iter()
            .find(|text| output.contains(text.as_str()))
        {
            return Some(format!("printed `{found}`"));
        }
        let mut rest = output;
        for text in &self.expect {
            let text = text.replace(HARTS_MARK, &smp.to_string());
            match rest.split_once(text.as_str()) {
                Some((_, after)) => rest = after,
                None => return Some(format!("did not print `{text}` where it was expected")),
            }
        }
        None
    }
}

/// Runs every program test.
///
/// Each file is one test.
pub(super) fn programs(context: &mut Context) -> Result<Outcome> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository::path(PROGRAM_TESTS))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("{PROGRAM_TESTS}/ has no test");
    }
    let tests = files
        .iter()
        .map(|file| ProgramTest::of_file(file))
        .collect::<Result<Vec<_>>>()?;
    let outside: Vec<PathBuf> = tests
        .iter()
        .filter_map(|test| test.program.as_ref().map(repository::path))
        .collect();
    let image = build::build(&outside, None, &mut context.progress)?;
    context.side_by_side(&tests, |test, context| {
        context.progress.say(&test.name);
        let failure = test
            .on_each(&image, context)
            .unwrap_or_else(|error| Some(format!("{error:#}")));
        Ok(match failure {
            None => Outcome::passed(),
            Some(failure) => {
                context.show(&format!("{PROGRAM_TESTS}/{}.toml: {failure}", test.name));
                Outcome::failed()
            }
        })
    })
}

/// Tests the heapless storage and `corank-mcu` on a Cortex-M4, and on a Cortex-M0. The traces also
/// run on 32-bit RISC-V.
///
/// The firmware prints its counts through the debugger's channel.
pub(super) fn cortex_m4(context: &mut Context) -> Result<Outcome> {
    let boards = [
        (Target::CortexM4, "netduinoplus2"),
        (Target::CortexM0, "microbit"),
    ];
    let mut outcome = Outcome::default();
    for (target, machine) in boards {
        for name in ["tests", "mcu"] {
            let firmware = firmware::build(name, target, &mut context.progress)?;
            let run = firmware::qemu_machine(machine, &firmware);
            outcome.add(firmware_tests(&run, context)?);
        }
        let traces = firmware::build_large("traces", target, &[], &[], &mut context.progress)?;
        outcome.add(firmware_tests(
            &firmware::qemu_large(target, &traces),
            context,
        )?);
    }
    outcome.add(application(context)?);
    let traces = firmware::riscv_traces(&mut context.progress)?;
    outcome.add(firmware_tests(&traces, context)?);
    for command in firmware::checks()? {
        let finished = context.command(&command)?;
        outcome.add(Outcome::of_command(&finished));
    }
    Ok(outcome)
}

/// Runs firmware whose last line has its counts.
fn firmware_tests(run: &Command, context: &mut Context) -> Result<Outcome> {
    let finished = context.command(run)?;
    let counted = Outcome::of_last_line(&finished.output, finished.success());
    if counted.failed > 0 && finished.success() {
        context.show(&finished.tail(40));
    }
    Ok(counted)
}

/// What the application prints, also under embassy-executor.
const APPLICATION: &str = "\
12 ms: 1
22 ms: 4
32 ms: 9
39 ms: 10000
42 ms: 16
52 ms: 25
62 ms: 36
72 ms: 49
76 ms: 10201
82 ms: 64
92 ms: 81
102 ms: 100
126 ms: total 20586, late true
";

/// Runs the application for embassy's crates.
fn application(context: &mut Context) -> Result<Outcome> {
    let target = Target::CortexM4;
    let features = ["application"];
    let progress = &mut context.progress;
    let firmware = firmware::build_large("application", target, &features, &[], progress)?;
    let finished = context.command(&firmware::qemu_large(target, &firmware))?;
    if finished.success() && finished.output.ends_with(APPLICATION) {
        return Ok(Outcome::passed());
    }
    context.show(&finished.tail(40));
    Ok(Outcome::failed())
}

/// Returns the end of what a program printed, and before that what failed in it.
pub(super) fn tail(output: &str) -> String {
    process::tail(output, 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(text: &str) -> ProgramTest {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_test_is_a_small_file() {
        let test = test("run = 'hello you'\nexpect = ['hello', 'you']\nlimit = 5\n");
        assert_eq!(
            (
                test.run.as_str(),
                test.smp.as_slice(),
                test.limit,
                test.exit
            ),
            ("hello you", &[1][..], 5, 0)
        );
        assert!(toml::from_str::<ProgramTest>("rum = 'hello'").is_err());
    }

    #[test]
    fn texts_are_expected_in_order() {
        let test = test("expect = ['one', 'two']");
        assert_eq!(test.failure(1, "one\nand two\n", 0), None);
        assert!(test.failure(1, "two one", 0).unwrap().contains("`two`"));
        assert!(
            test.failure(1, "one two panicked", 0)
                .unwrap()
                .contains("printed `panicked`")
        );
        assert!(
            test.failure(1, "one two", 9)
                .unwrap()
                .contains("code 9 instead of 0")
        );
    }

    #[test]
    fn the_number_of_harts_may_be_expected() {
        let test = test("expect = ['on {harts} stacks']");
        assert_eq!(test.failure(4, "on 4 stacks", 0), None);
        assert!(test.failure(2, "on 4 stacks", 0).is_some());
    }
}
