//! Tests of the operating system's disk from both sides.
//!
//! Linux's tools write what the system reads, and read what it writes. Some disks fail.

use super::Context;
use super::machine::{DISK_SIZE, HARTS, ProgramTest};
use super::outcome::Outcome;
use crate::os::build::{self, Image};
use crate::os::disk::Disk;
use crate::os::scratch_disk::ScratchDisk;
use anyhow::Result;

/// The number of a write that [`CHANGES`] does not reach.
const BEHIND_LAST_WRITE: u32 = 70;

/// Changes of every kind, each of which may fail.
///
/// The last command shows that the system continues.
const CHANGES: &str = "mkdir d; echo text > 'd/a long name'; mv 'd/a long name' d/a; cp d/a d/b; mv d/b c; rm d/a; rmdir d; rm c; echo over";

/// Clusters of the file that is removed while the power fails, and the most clusters that the file
/// system releases at once.
const LONG: usize = 3 * STEP;
const STEP: usize = 1024;

/// The first writes that fail, as if the power had failed.
///
/// They are in each of the three steps, between them, and behind the last write.
const LAST_WRITES: [u32; 7] = [2, 5, 8, 16, 22, 40, 70];

type Test = fn(u32, &Image, &mut Context) -> Result<Outcome>;

/// The tests that run on each number of harts.
const TESTS: [Test; 6] = [
    both_ways,
    a_read_that_fails_once,
    no_write_succeeds,
    a_full_disk,
    a_disk_without_a_file_system,
    a_disk_that_is_read_only,
];

/// Runs all tests.
pub(super) fn test(context: &mut Context) -> Result<Outcome> {
    let image = build::build(&[], None, &mut context.progress)?;
    let mut runs = Vec::new();
    for smp in HARTS {
        for test in TESTS {
            runs.push((test, smp));
        }
    }
    let mut outcome =
        context.side_by_side(&runs, |&(test, smp), context| test(smp, &image, context))?;
    // These tests boot many times. They run on one hart, because failures are the same on any
    // number of harts.
    let writes: Vec<u32> = (1..=BEHIND_LAST_WRITE).collect();
    outcome.add(context.side_by_side(&writes, |&number, context| {
        a_write_that_fails(number, &image, context)
    })?);
    outcome.add(context.side_by_side(&LAST_WRITES, |&number, context| {
        a_removal_without_power(number, &image, context)
    })?);
    Ok(outcome)
}

/// Returns bytes that differ from position to position.
fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at ^ at >> 8 ^ at >> 16) as u8)
        .collect()
}

/// Tests that a file has this content.
fn compare(
    disk: &ScratchDisk,
    path: &str,
    content: &[u8],
    context: &mut Context,
) -> Result<Outcome> {
    Ok(if disk.read(path)? == content {
        Outcome::passed()
    } else {
        context.show(&format!("{path} on the disk has not what was written"));
        Outcome::failed()
    })
}

fn both_ways(smp: u32, image: &Image, context: &mut Context) -> Result<Outcome> {
    let disk = ScratchDisk::new(&format!("both-ways-{smp}"), DISK_SIZE)?;
    let large = pattern(1_000_000);
    disk.write("/large", &large)?;
    disk.write("/A name that is longer than eleven.text", b"one\n")?;
    disk.make_directory("/directory")?;
    disk.write("/directory/Grüße 协程", b"two\nthree\n")?;
    let script = "ls -l /; wc large 'directory/Grüße 协程'; cp large copy; mkdir new; \
                  cp 'directory/Grüße 协程' 'new/From Corank'; mv large directory; rm 'A name that is longer than eleven.text'; echo appended >> 'new/From Corank'; top -n 1";
    let test = ProgramTest::script(
        script,
        0,
        &[
            "A name that is longer than eleven.text\n",
            " directory/\n",
            "   1000000 ",
            " 1000000 large\n",
            " directory/Grüße 协程\n",
            // A large read is several requests at once.
            "at most 4 at once",
        ],
    );
    let mut outcome = test.judge(smp, image, Some(disk.attached()), context)?;
    for (path, content) in [
        ("/copy", large.as_slice()),
        ("/directory/large", &large),
        ("/directory/Grüße 协程", b"two\nthree\n"),
        ("/new/From Corank", b"two\nthree\nappended\n"),
    ] {
        outcome.add(compare(&disk, path, content, context)?);
    }
    outcome.add(context.fsck(&disk)?);
    Ok(outcome)
}

fn a_read_that_fails_once(smp: u32, image: &Image, context: &mut Context) -> Result<Outcome> {
    let disk = ScratchDisk::new(&format!("bad-sector-{smp}"), DISK_SIZE)?;
    disk.write("/file", &pattern(10_000))?;
    let sector = disk.first_sector("/file")? + 3;
    let failing = disk
        .attached()
        .with_fault("inject-error.0.event=read_aio".into())
        .with_fault(format!("inject-error.0.sector={sector}"))
        .with_fault("inject-error.0.errno=5".into())
        .with_fault("inject-error.0.once=on".into());
    let test = ProgramTest::script(
        "cat file; echo $?; wc file",
        0,
        &[
            "cat: file: the disk could not read or write\n1\n",
            "   10000 file\n",
        ],
    );
    let mut outcome = test.judge(smp, image, Some(failing), context)?;
    outcome.add(context.fsck(&disk)?);
    Ok(outcome)
}

/// Makes the `number`th write fail, once.
fn failing_at(disk: Disk, number: u32) -> Disk {
    failing_from(disk, number).with_fault("inject-error.0.once=on".into())
}

/// Makes the `number`th write and all later ones fail.
///
/// So the disk stays as it was when the power failed.
fn failing_from(disk: Disk, number: u32) -> Disk {
    // `blkdebug` counts by states: each write before the one that fails leads to the next.
    let mut disk = disk;
    for state in 1..number {
        let rule = format!("set-state.{}", state - 1);
        disk = disk
            .with_fault(format!("{rule}.event=write_aio"))
            .with_fault(format!("{rule}.state={state}"))
            .with_fault(format!("{rule}.new_state={}", state + 1));
    }
    disk.with_fault("inject-error.0.event=write_aio".into())
        .with_fault(format!("inject-error.0.state={number}"))
        .with_fault("inject-error.0.errno=5".into())
}

/// Tests that the system continues if the write with this number fails, and that the disk is whole
/// in the end.
fn a_write_that_fails(number: u32, image: &Image, context: &mut Context) -> Result<Outcome> {
    let disk = ScratchDisk::new(&format!("bad-write-{number}"), 1 << 20)?;
    let mut test = ProgramTest::script(CHANGES, 0, &["over\n"]);
    if number == BEHIND_LAST_WRITE {
        test = test.rejecting("the disk could not");
    }
    let failing = failing_at(disk.attached(), number).with_option("werror=report");
    let mut outcome = test.judge(1, image, Some(failing), context)?;
    outcome.add(context.fsck(&disk)?);
    Ok(outcome)
}

/// Tests what is left if the power fails at the write with this number, while a long file is being
/// removed.
///
/// It is a volume with all other files, and no more clusters are lost than one step releases.
fn a_removal_without_power(number: u32, image: &Image, context: &mut Context) -> Result<Outcome> {
    let disk = ScratchDisk::new(&format!("no-power-{number}"), DISK_SIZE)?;
    let other = pattern(100_000);
    disk.write("/other", &other)?;
    disk.write("/long", &pattern(LONG * disk.cluster_size()?))?;
    let test = ProgramTest::script("rm long; echo over", 0, &["over\n"]);
    let failing = failing_from(disk.attached(), number);
    let mut outcome = test.judge(1, image, Some(failing), context)?;
    let lost = disk.repair()?;
    if lost > STEP {
        context.show(&format!("{lost} clusters are lost by write {number}"));
        outcome.add(Outcome::failed());
    }
    outcome.add(context.fsck(&disk)?);
    outcome.add(compare(&disk, "/other", &other, context)?);
    Ok(outcome)
}

/// Tests that, if no write succeeds, every change fails with an error and nothing else happens.
fn no_write_succeeds(smp: u32, image: &Image, context: &mut Context) -> Result<Outcome> {
    let disk = ScratchDisk::new(&format!("no-write-{smp}"), 1 << 20)?;
    disk.write("/file", b"text\n")?;
    let failing = disk
        .attached()
        .with_fault("inject-error.0.event=write_aio".into())
        .with_fault("inject-error.0.errno=5".into())
        .with_option("werror=report");
    let test = ProgramTest::script(
        "mkdir d; echo new > other; rm file; ls; exit 3",
        3,
        &[
            "mkdir: d: the disk could not read or write\n",
            "sh: other: the disk could not read or write\n",
            "rm: file: the disk could not read or write\n",
            "file\n",
            "corank: the file system could not be written to its end\n",
        ],
    );
    let mut outcome = test.judge(smp, image, Some(failing), context)?;
    outcome.add(compare(&disk, "/file", b"text\n", context)?);
    outcome.add(context.fsck(&disk)?);
    Ok(outcome)
}

fn a_full_disk(smp: u32, image: &Image, context: &mut Context) -> Result<Outcome> {
    let disk = ScratchDisk::new(&format!("full-{smp}"), 1 << 20)?;
    disk.write("/large", &pattern(700_000))?;
    let test = ProgramTest::script(
        "df; cp large copy; echo $?; rm copy; df; cp large copy; rm large copy; echo again > file; cat file",
        0,
        &[
            "cp: copy: the disk is full\n1\n",
            "cp: copy: the disk is full\nagain\n",
        ],
    );
    let mut outcome = test.judge(smp, image, Some(disk.attached()), context)?;
    outcome.add(compare(&disk, "/file", b"again\n", context)?);
    outcome.add(context.fsck(&disk)?);
    Ok(outcome)
}

fn a_disk_without_a_file_system(smp: u32, image: &Image, context: &mut Context) -> Result<Outcome> {
    let disk = ScratchDisk::new(&format!("empty-{smp}"), 1 << 20)?;
    disk.wipe()?;
    let test = ProgramTest::script(
        "ls; echo text > file; hello you",
        0,
        &[
            "corank: no file system on the disk: ",
            "ls: .: the disk could not read or write\n",
            "sh: file: the disk could not read or write\n",
            "hello, you\n",
        ],
    );
    test.judge(smp, image, Some(disk.attached()), context)
}

fn a_disk_that_is_read_only(smp: u32, image: &Image, context: &mut Context) -> Result<Outcome> {
    let disk = ScratchDisk::new(&format!("read-only-{smp}"), 1 << 20)?;
    disk.write("/file", b"text\n")?;
    let test = ProgramTest::script(
        "cat file; echo new > file; mkdir d; rm file; mv file other; cat file",
        0,
        &[
            "text\n",
            "sh: file: the disk cannot be written\n",
            "mkdir: d: the disk cannot be written\n",
            "rm: file: the disk cannot be written\n",
            "mv: file: the disk cannot be written\n",
            "text\n",
        ],
    );
    let read_only = disk.attached().with_option("readonly=on");
    let mut outcome = test.judge(smp, image, Some(read_only), context)?;
    outcome.add(context.fsck(&disk)?);
    Ok(outcome)
}
