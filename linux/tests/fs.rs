//! Files: written bytes are read back, also if operations are dropped, and the most urgent caller
//! goes first.

#![cfg(not(loom))]

#[path = "../../core/tests/common/asserts.rs"]
mod asserts;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::future::poll_fn;
use std::io::{ErrorKind, SeekFrom};
use std::task::Poll;
use std::time::Duration;

use corank_linux::fs::{self, File};
use corank_linux::time::timeout;
use corank_linux::{Builder, Runtime};
use futures::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt, FutureExt, StreamExt};

/// Bounds the waits of a failing test; long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new().workers(2).build().unwrap()
}

/// Returns bytes that differ from offset to offset.
fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 7 + at / 251 + at / 65_537) as u8)
        .collect()
}

#[test]
fn written_bytes_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    runtime().block_on(async move {
        // More than one operation takes, and not a multiple of it.
        let bytes = pattern(1_000_003);
        let mut file = File::create(&path).await.unwrap();
        file.write_all(&bytes).await.unwrap();
        // No operation is pending any more.
        assert_eq!(fs::read(&path).await.unwrap(), bytes);
        file.sync_all().await.unwrap();
        file.sync_data().await.unwrap();
        assert_eq!(file.metadata().await.unwrap().len(), 1_000_003);
        drop(file);

        let mut file = File::open(&path).await.unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).await.unwrap();
        assert!(read == bytes);
        assert_eq!(file.read(&mut [0]).await.unwrap(), 0, "the end stays");
        let refused = file.write(b"x").await.unwrap_err();
        assert_eq!(
            refused.raw_os_error(),
            Some(9),
            "it is open for reading only"
        );
    });
}

#[test]
fn a_file_keeps_its_own_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    runtime().block_on(async move {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        let mut file = File::open_with(&path, options).await.unwrap();
        file.write_all(b"0123456789").await.unwrap();
        assert_eq!(file.seek(SeekFrom::Start(3)).await.unwrap(), 3);
        let mut two = [0; 2];
        file.read_exact(&mut two).await.unwrap();
        assert_eq!(&two, b"34");
        file.write_all(b"ab").await.unwrap();
        assert_eq!(file.seek(SeekFrom::Current(-1)).await.unwrap(), 6);
        file.read_exact(&mut two).await.unwrap();
        assert_eq!(&two, b"b7");
        assert_eq!(file.seek(SeekFrom::End(-1)).await.unwrap(), 9);
        file.write_all(b"xyz").await.unwrap();
        assert_eq!(fs::read_to_string(&path).await.unwrap(), "01234ab78xyz");
        for to in [SeekFrom::End(-13), SeekFrom::Current(-13)] {
            let error = file.seek(to).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(file.stream_position().await.unwrap(), 12, "it stays");

        // Reads and writes at offsets do not move the position.
        assert_eq!(file.write_at(b"AB".as_slice(), 1).await.unwrap(), 2);
        let mut four = [0; 4];
        assert_eq!(file.read_at(&mut four, 0).await.unwrap(), 4);
        assert_eq!(&four, b"0AB3");
        assert_eq!(file.read_at(&mut four, 10).await.unwrap(), 2);
        assert_eq!(file.stream_position().await.unwrap(), 12);
        file.set_len(4).await.unwrap();
        assert_eq!(fs::read(&path).await.unwrap(), b"0AB3");

        let mut end = File::open_with(&path, OpenOptions::new().append(true))
            .await
            .unwrap();
        end.write_all(b"!").await.unwrap();
        assert_eq!(end.stream_position().await.unwrap(), 5);
        assert_eq!(fs::read(&path).await.unwrap(), b"0AB3!");
    });
}

/// Copies a file in small pieces, where every operation is dropped after its first poll and begun
/// again before it is done.
#[test]
fn operations_may_be_cancelled_at_every_await() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    runtime().block_on(async move {
        let bytes = pattern(100_000);
        fs::write(&from, bytes.clone()).await.unwrap();
        let mut source = File::open(&from).await.unwrap();
        let mut target = File::create(&to).await.unwrap();
        let mut buffer = [0; 1999];
        loop {
            drop_after_one_poll(source.read(&mut buffer[..1000])).await;
            source.seek(SeekFrom::Current(0)).await.unwrap();
            drop_after_one_poll(source.seek(SeekFrom::End(0))).await;
            // The position has not changed, unless one of them was done at once.
            let position = target.stream_position().await.unwrap();
            source.seek(SeekFrom::Start(position)).await.unwrap();
            let count = source.read(&mut buffer).await.unwrap();
            if count == 0 {
                break;
            }
            // Other bytes, which are overwritten if they were written at all.
            drop_after_one_poll(target.write(&vec![0xff; count])).await;
            target.seek(SeekFrom::Start(position)).await.unwrap();
            drop_after_one_poll(target.write(&buffer[..count])).await;
            target.seek(SeekFrom::Start(position)).await.unwrap();
            target.write_all(&buffer[..count]).await.unwrap();
        }
        assert!(fs::read(&to).await.unwrap() == bytes);
    });
}

/// Polls once; returns true if the operation was done.
async fn drop_after_one_poll<F: Future + Unpin>(mut operation: F) -> bool {
    poll_fn(|cx| Poll::Ready(operation.poll_unpin(cx).is_ready())).await
}

/// A write that is dropped and begun again with the same bytes is one write, also at the end of a
/// file that it extends.
#[test]
fn a_repeated_write_is_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    runtime().block_on(async move {
        let mut options = OpenOptions::new();
        let options = options.append(true).create(true);
        let mut file = File::open_with(&path, options).await.unwrap();
        for _ in 0..50 {
            if !drop_after_one_poll(file.write(b"line\n")).await {
                file.write_all(b"line\n").await.unwrap();
            }
        }
        assert_eq!(fs::read(&path).await.unwrap(), b"line\n".repeat(50));
    });
}

#[test]
fn directories_are_read_and_changed() {
    const FILES: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_path_buf();
    runtime().block_on(async move {
        let deep = root.join("a/b/c");
        fs::create_dir_all(&deep).await.unwrap();
        for number in 0..FILES {
            let path = deep.join(number.to_string());
            std::fs::write(path, "x").unwrap();
        }
        let mut names = BTreeSet::new();
        let mut entries = fs::read_dir(&deep).await.unwrap();
        while let Some(entry) = entries.next_entry().await.unwrap() {
            assert!(entry.file_type().await.unwrap().is_file());
            assert_eq!(entry.path(), deep.join(entry.file_name()));
            names.insert(entry.file_name().into_string().unwrap());
        }
        assert!(entries.next().await.is_none(), "the end stays");
        assert_eq!(names, (0..FILES).map(|number| number.to_string()).collect());

        let (old, new) = (deep.join("0"), root.join("new"));
        fs::rename(&old, &new).await.unwrap();
        assert!(!fs::try_exists(&old).await.unwrap());
        assert_eq!(fs::copy(&new, &old).await.unwrap(), 1);
        fs::symlink(&new, root.join("link")).await.unwrap();
        assert_eq!(fs::read_link(root.join("link")).await.unwrap(), new);
        assert_eq!(
            fs::canonicalize(root.join("link")).await.unwrap(),
            new.canonicalize().unwrap()
        );
        assert!(
            fs::symlink_metadata(root.join("link"))
                .await
                .unwrap()
                .is_symlink()
        );
        fs::hard_link(&new, root.join("again")).await.unwrap();
        fs::remove_file(&new).await.unwrap();
        let mut permissions = fs::metadata(root.join("again"))
            .await
            .unwrap()
            .permissions();
        permissions.set_readonly(true);
        fs::set_permissions(root.join("again"), permissions)
            .await
            .unwrap();
        assert_eq!(fs::read_to_string(root.join("again")).await.unwrap(), "x");

        fs::create_dir(root.join("empty")).await.unwrap();
        let not_empty = fs::remove_dir(root.join("a")).await.unwrap_err();
        assert_eq!(not_empty.kind(), ErrorKind::DirectoryNotEmpty);
        fs::remove_dir(root.join("empty")).await.unwrap();
        fs::remove_dir_all(root.join("a")).await.unwrap();
        let missing = fs::read_dir(root.join("a")).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    });
}

/// Reads a file that the kernel generates, which has no length.
#[test]
fn files_without_a_length_are_read_to_their_end() {
    runtime().block_on(async {
        let mut text = String::new();
        let mut file = File::open("/proc/self/status").await.unwrap();
        let read = timeout(LONG, file.read_to_string(&mut text)).await.unwrap();
        assert!(read.unwrap() > 100);
        assert!(text.contains("\nPid:"));
    });
}

#[test]
fn files_without_positions_are_refused() {
    runtime().block_on(async {
        let (end, _other) = std::io::pipe().unwrap();
        let owned = std::os::fd::OwnedFd::from(end);
        let mut file = File::from_std(owned.into()).unwrap();
        let error = file.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSeekable);
    });
}
