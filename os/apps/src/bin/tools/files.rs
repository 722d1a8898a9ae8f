//! Tools for files and directories.
use crate::{Arguments, Trouble, for_each, option};
use alloc::format;
use alloc::string::String;
use corank_user::fs::{self, Entry, File, FileStatus};
use corank_user::println;

/// Bytes of one read: what the kernel takes at once.
const PIECE: usize = 128 << 10;

/// Lists directories, and files by themselves.
pub(crate) fn ls(arguments: &Arguments) -> Result<(), Trouble> {
    let (long, paths) = option(arguments, "-l")?;
    let paths: &[&str] = if paths.is_empty() { &["."] } else { paths };
    for_each("ls", paths, |path| {
        let status = fs::status(path).map_err(|error| Trouble::with(path, error))?;
        if !fs::is_directory(&status) {
            print_entry(path, &status, long);
            return Ok(());
        }
        if paths.len() > 1 {
            println!("{path}:");
        }
        let mut entries = fs::list(path).map_err(|error| Trouble::with(path, error))?;
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        for Entry { name, status } in &entries {
            print_entry(name, status, long);
        }
        Ok(())
    })
}

fn print_entry(name: &str, status: &FileStatus, long: bool) {
    let mark = if fs::is_directory(status) { "/" } else { "" };
    if long {
        println!("{:>10} {} {name}{mark}", status.size, date(status.modified));
    } else {
        println!("{name}{mark}");
    }
}

/// Formats seconds since 1970 as a date and time, UTC.
fn date(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March end with the day that not every year has; eras of 400 years are all
    // alike.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = 400 * era + year + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Makes directories.
pub(crate) fn mkdir(arguments: &Arguments) -> Result<(), Trouble> {
    let (parents, paths) = option(arguments, "-p")?;
    if paths.is_empty() {
        return Err(Trouble::Usage);
    }
    for_each("mkdir", paths, |path| {
        if parents {
            for (end, _) in path.match_indices('/').filter(|(end, _)| *end > 0) {
                // What is still missing at the end is reported below.
                let _ = fs::make_directory(&path[..end]);
            }
            if fs::status(path).is_ok_and(|status| fs::is_directory(&status)) {
                return Ok(());
            }
        }
        fs::make_directory(path).map_err(|error| Trouble::with(path, error))
    })
}

/// Removes empty directories.
pub(crate) fn rmdir(arguments: &Arguments) -> Result<(), Trouble> {
    if arguments.is_empty() {
        return Err(Trouble::Usage);
    }
    for_each("rmdir", arguments, |path| {
        fs::remove_directory(path).map_err(|error| Trouble::with(path, error))
    })
}

/// Removes files, and with `-r` directories with their content.
pub(crate) fn rm(arguments: &Arguments) -> Result<(), Trouble> {
    let (recursive, paths) = option(arguments, "-r")?;
    if paths.is_empty() {
        return Err(Trouble::Usage);
    }
    for_each("rm", paths, |path| remove(path, recursive))
}

fn remove(path: &str, recursive: bool) -> Result<(), Trouble> {
    let failed = |error| Trouble::with(path, error);
    let status = fs::status(path).map_err(failed)?;
    if !recursive || !fs::is_directory(&status) {
        return fs::remove(path).map_err(failed);
    }
    for entry in fs::list(path).map_err(failed)? {
        remove(&format!("{path}/{}", entry.name), true)?;
    }
    fs::remove_directory(path).map_err(failed)
}

/// Returns where a file goes that is copied or moved to `to`: into it, if it is a directory.
fn target(from: &str, to: &str) -> String {
    let name = from.trim_end_matches('/').rsplit('/').next();
    match fs::status(to) {
        Ok(status) if fs::is_directory(&status) => {
            format!("{to}/{}", name.unwrap_or_default())
        }
        _ => String::from(to),
    }
}

/// Calls `deed` with each file and where it goes.
fn to_target(
    name: &str,
    arguments: &Arguments,
    deed: impl Fn(&str, &str) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let Some((to, from @ [_, ..])) = arguments.split_last() else {
        return Err(Trouble::Usage);
    };
    if from.len() > 1 && !fs::status(to).is_ok_and(|status| fs::is_directory(&status)) {
        return Err(Trouble::with(to, "not a directory"));
    }
    for_each(name, from, |from| deed(from, &target(from, to)))
}

/// Moves files and directories.
pub(crate) fn mv(arguments: &Arguments) -> Result<(), Trouble> {
    to_target("mv", arguments, |from, to| {
        fs::rename(from, to).map_err(|error| Trouble::with(from, error))
    })
}

/// Copies files.
pub(crate) fn cp(arguments: &Arguments) -> Result<(), Trouble> {
    to_target("cp", arguments, |from, to| {
        if let (Ok(one), Ok(other)) = (fs::status(from), fs::status(to))
            && one.number == other.number
        {
            return Err(Trouble::with(from, "it is the same file"));
        }
        let input = File::open(from).map_err(|error| Trouble::with(from, error))?;
        let output = File::create(to).map_err(|error| Trouble::with(to, error))?;
        let mut piece = alloc::vec![0; PIECE];
        loop {
            let count = input
                .read(&mut piece)
                .map_err(|error| Trouble::with(from, error))?;
            if count == 0 {
                return output.close().map_err(|error| Trouble::with(to, error));
            }
            output
                .write_all(&piece[..count])
                .map_err(|error| Trouble::with(to, error))?;
        }
    })
}

/// Waits until everything is on the disk.
pub(crate) fn sync(_: &Arguments) -> Result<(), Trouble> {
    Ok(fs::sync()?)
}

/// Shows how much room there is.
pub(crate) fn df(_: &Arguments) -> Result<(), Trouble> {
    let space = fs::space()?;
    let kilobytes = |blocks: u64| blocks * space.block_size / 1024;
    println!(
        "{} of {} KiB free",
        kilobytes(space.free),
        kilobytes(space.blocks)
    );
    Ok(())
}
