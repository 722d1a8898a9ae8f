//! Answers to requests, from the disk.
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use corank_abi::call::FAILED;
use corank_abi::error::{
    BAD_DESCRIPTOR, BUSY, INVALID, IS_A_DIRECTORY, NAME_TOO_LONG, NO_MEMORY, NOT_A_DIRECTORY,
    NOT_FOUND, TOO_MANY_FILES,
};
use corank_http::answer::{Head, Status};
use corank_http::condition::{Verdict, Version};
use corank_http::listing::Listing;
use corank_http::request::{Method, Refusal, Request};
use corank_http::{date, media, path};
use corank_user::fs::asynchronous::{self as files, Entries};
use corank_user::fs::{self, File, FileStatus, From, Options};
use corank_user::{Error, ring, time};

use crate::server::Server;
use crate::wire::{Broken, PIECE, Wire};

/// The most bytes of a page that lists a directory.
const LISTING: usize = 64 << 10;

/// An answer that the client has, or that is in flight.
pub(crate) struct Answered {
    pub(crate) status: Status,
    /// Tells whether the connection goes on.
    pub(crate) keep_alive: bool,
}

/// Returns the time, in seconds since 1970.
fn now() -> Option<i64> {
    i64::try_from(time::calendar()?).ok()
}

/// The result of opening a path.
enum Found {
    File(File, FileStatus),
    Directory,
}

/// Answers a request, and tells the client whether the connection goes on.
///
/// # Errors
/// The client is gone, or the answer could not be finished and the connection was broken off.
pub(crate) async fn answer(
    wire: &mut Wire,
    server: &Server,
    request: &Request<'_>,
    keep_alive: bool,
) -> Result<Answered, Broken> {
    let reply = Reply {
        request,
        keep_alive,
    };
    let root = &server.options.root;
    let place = format!("{root}{}", request.path);
    let is_directory = request.path.ends_with('/');
    match find(&place).await {
        // A file's name does not end with a slash.
        Ok(Found::File(file, _)) if is_directory => {
            close(file).await;
            reply.say(wire, Status::NOT_FOUND).await
        }
        Ok(Found::File(file, status)) => reply.file(wire, &request.path, file, status).await,
        Ok(Found::Directory) if !is_directory => reply.redirect(wire).await,
        Ok(Found::Directory) => {
            let index = format!("{place}index.html");
            match find(&index).await {
                Ok(Found::File(file, status)) => reply.file(wire, &index, file, status).await,
                Ok(Found::Directory) | Err(Status::NOT_FOUND) if server.options.listing => {
                    // Rare, and large.
                    Box::pin(reply.listing(wire, &place)).await
                }
                Ok(Found::Directory) => reply.say(wire, Status::NOT_FOUND).await,
                Err(status) => reply.say(wire, status).await,
            }
        }
        Err(status) => reply.say(wire, status).await,
    }
}

/// Answers input that is no request, or a request that can't be served.
///
/// # Errors
/// The client is gone.
pub(crate) async fn refuse(wire: &mut Wire, refusal: Refusal) -> Result<(), Broken> {
    let Refusal {
        status,
        without_body,
    } = refusal;
    let mut head = Head::new(&mut wire.out, status, now());
    if status == Status::METHOD_NOT_ALLOWED {
        head = head.field("Allow", "GET, HEAD");
    }
    end_with_text(head, &format!("{status}\n"), !without_body, false);
    wire.flush().await
}

/// Ends a head, and adds a text as the body.
fn end_with_text(head: Head<'_>, text: &str, with_body: bool, keep_alive: bool) {
    let out = head
        .field("Content-Type", "text/plain; charset=utf-8")
        .end(Some(text.len() as u64), keep_alive);
    if with_body {
        out.extend_from_slice(text.as_bytes());
    }
}

async fn find(place: &str) -> Result<Found, Status> {
    let file = match files::open(place, Options::read()).await {
        Ok(file) => file,
        Err(error) if error.code() == IS_A_DIRECTORY => return Ok(Found::Directory),
        Err(error) => return Err(why(error)),
    };
    match files::status_of(&file).await {
        Ok(status) if fs::is_directory(&status) => {
            close(file).await;
            Ok(Found::Directory)
        }
        Ok(status) => Ok(Found::File(file, status)),
        Err(error) => {
            close(file).await;
            // A file of the system's own archive, not of the disk.
            Err(if error.code() == BAD_DESCRIPTOR {
                Status::NOT_FOUND
            } else {
                why(error)
            })
        }
    }
}

/// Returns the status that reports an error to a client.
fn why(error: Error) -> Status {
    match error.code() {
        NOT_FOUND | NOT_A_DIRECTORY | INVALID => Status::NOT_FOUND,
        NAME_TOO_LONG => Status::URI_TOO_LONG,
        // The next attempt may succeed.
        FAILED | BUSY | NO_MEMORY | TOO_MANY_FILES => Status::SERVICE_UNAVAILABLE,
        _ => Status::INTERNAL_SERVER_ERROR,
    }
}

async fn close(file: File) {
    // The file was only read, so nothing can be lost.
    let _ = files::close(file).await;
}

/// A request that is answered.
#[derive(Clone, Copy)]
struct Reply<'r> {
    request: &'r Request<'r>,
    keep_alive: bool,
}

impl Reply<'_> {
    fn answered(self, status: Status) -> Answered {
        Answered {
            status,
            keep_alive: self.keep_alive,
        }
    }

    fn wants_body(self) -> bool {
        self.request.method == Method::Get
    }

    /// Answers with a status and its phrase.
    async fn say(self, wire: &mut Wire, status: Status) -> Result<Answered, Broken> {
        self.say_with(wire, status, |head| head).await
    }

    /// Answers like [`say`](Self::say), with more fields.
    async fn say_with(
        self,
        wire: &mut Wire,
        status: Status,
        fields: impl FnOnce(Head<'_>) -> Head<'_>,
    ) -> Result<Answered, Broken> {
        let head = fields(Head::new(&mut wire.out, status, now()));
        end_with_text(
            head,
            &format!("{status}\n"),
            self.wants_body(),
            self.keep_alive,
        );
        wire.flush().await?;
        Ok(self.answered(status))
    }

    /// Redirects to the directory's path with `/` at its end, so that what its pages refer to lies
    /// in it.
    async fn redirect(self, wire: &mut Wire) -> Result<Answered, Broken> {
        // With two slashes at its beginning it would be the address of another server.
        let path = self.request.path.trim_start_matches('/');
        let to = path::encoded(path);
        self.say_with(wire, Status::MOVED_PERMANENTLY, |head| {
            head.field("Location", format_args!("/{to}/"))
        })
        .await
    }

    async fn listing(self, wire: &mut Wire, place: &str) -> Result<Answered, Broken> {
        let page = match list(&self.request.path, place).await {
            Ok(page) => page,
            Err(status) => return self.say(wire, status).await,
        };
        Head::new(&mut wire.out, Status::OK, now())
            .field("Content-Type", "text/html; charset=utf-8")
            .field("Cache-Control", "no-cache")
            .end(Some(page.len() as u64), self.keep_alive);
        wire.flush().await?;
        if self.wants_body() {
            let mut page = page.into_bytes();
            // In pieces, because each has a time limit of its own.
            while page.len() > PIECE {
                let rest = page.split_off(PIECE);
                wire.send(page).await?;
                page = rest;
            }
            wire.send(page).await?;
        }
        Ok(self.answered(Status::OK))
    }

    async fn file(
        self,
        wire: &mut Wire,
        name: &str,
        file: File,
        status: FileStatus,
    ) -> Result<Answered, Broken> {
        let answered = self.open_file(wire, name, &file, status).await;
        close(file).await;
        answered
    }

    async fn open_file(
        self,
        wire: &mut Wire,
        name: &str,
        file: &File,
        status: FileStatus,
    ) -> Result<Answered, Broken> {
        let (size, now) = (status.size, now());
        let version = Version::new(size, status.modified);
        let in_parts = match self.request.conditions.judge(&version, now) {
            Verdict::Send { in_parts } => in_parts && self.wants_body(),
            Verdict::Failed => return self.say(wire, Status::PRECONDITION_FAILED).await,
            Verdict::NotModified => {
                Self::version(
                    Head::new(&mut wire.out, Status::NOT_MODIFIED, now),
                    &version,
                )
                .end(None, self.keep_alive);
                wire.flush().await?;
                return Ok(self.answered(Status::NOT_MODIFIED));
            }
        };
        let wanted = self.request.range.filter(|_| in_parts);
        let part = match wanted.map(|wanted| wanted.of(size)) {
            Some(None) => {
                return self
                    .say_with(wire, Status::RANGE_NOT_SATISFIABLE, |head| {
                        head.field("Content-Range", format_args!("bytes */{size}"))
                    })
                    .await;
            }
            Some(Some(part)) => Some(part),
            None => None,
        };
        let status = if part.is_some() {
            Status::PARTIAL_CONTENT
        } else {
            Status::OK
        };
        let mut head = Self::version(Head::new(&mut wire.out, status, now), &version)
            .field("Content-Type", media::of(name))
            .field("Accept-Ranges", "bytes");
        if let Some(Range { start, end }) = part {
            let last = end - 1;
            head = head.field("Content-Range", format_args!("bytes {start}-{last}/{size}"));
        }
        let part = part.unwrap_or(0..size);
        head.end(Some(part.end - part.start), self.keep_alive);
        if self.wants_body() {
            send_part(wire, file, part).await?;
        } else {
            wire.flush().await?;
        }
        Ok(self.answered(status))
    }

    /// Adds the fields that let a client ask for a file only if it has changed.
    fn version<'h>(head: Head<'h>, version: &Version) -> Head<'h> {
        let modified = version.modified.and_then(date::format);
        let head = head.field("ETag", &version.tag);
        match modified {
            Some(modified) => head.field("Last-Modified", modified),
            None => head,
        }
    }
}

/// Sends the head that is in `wire.out`, and behind it a part of a file.
///
/// # Errors
/// The client is gone, or the file is shorter than it was.
async fn send_part(wire: &mut Wire, file: &File, part: Range<u64>) -> Result<(), Broken> {
    if part.start > 0 {
        let there = files::seek(file, From::Start(part.start)).await;
        there.map_err(|_| Broken)?;
    }
    let mut left = part.end - part.start;
    let mut piece = Vec::new();
    while left > 0 {
        let size = PIECE.min(usize::try_from(left).unwrap_or(PIECE));
        if piece.capacity() < size {
            piece.try_reserve_exact(size).map_err(|_| Broken)?;
        }
        let (count, data) = ring::read(file, piece).await;
        // A file that has become shorter ends too early.
        let count = count.map_err(|_| Broken)?.min(size);
        if count == 0 {
            return Err(Broken);
        }
        left -= count as u64;
        piece = data;
        piece.truncate(count);
        if wire.out.is_empty() {
            piece = wire.send(piece).await?;
        } else {
            wire.out.extend_from_slice(&piece);
            wire.flush().await?;
        }
    }
    wire.flush().await
}

async fn list(path: &str, place: &str) -> Result<String, Status> {
    let page = Listing::new(path, LISTING);
    let mut page = page.ok_or(Status::SERVICE_UNAVAILABLE)?;
    let mut entries = Entries::of(place).map_err(why)?;
    while let Some(entry) = entries.next().await.map_err(why)? {
        if entry.name == "." || entry.name == ".." {
            continue;
        }
        let FileStatus { size, modified, .. } = entry.status;
        let is_directory = fs::is_directory(&entry.status);
        let date = (modified > 0).then_some(modified);
        if !page.add_entry(&entry.name, is_directory, size, date) {
            break;
        }
    }
    Ok(page.end())
}
