//! Types of files, by the end of their names.

/// Ends of names in lower case, and what such files are.
const TYPES: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// Returns what a file of this name is, as `Content-Type` says it; bytes without a meaning if the
/// end is not known.
#[must_use]
pub fn of(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    let found = TYPES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(end));
    found.map_or("application/octet-stream", |(_, media)| media)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_end_of_the_name_counts() {
        assert_eq!(of("/a/INDEX.HTML"), "text/html; charset=utf-8");
        assert_eq!(of("/a.tar.gz"), "application/gzip");
        for other in ["/", "/html", "/a.html/file", "/.", "/a.", "/a.zzz"] {
            assert_eq!(of(other), "application/octet-stream", "{other}");
        }
    }
}
