//! A directory as a page.
use alloc::string::String;
use core::fmt::{self, Write};

use crate::{date, path};

/// A page that lists a directory, up to a number of bytes.
#[derive(Debug)]
pub struct Listing {
    page: String,
    limit: usize,
    complete: bool,
}

/// Bytes that are kept for the end of the page.
const END: usize = 64;

impl Listing {
    /// Begins the page of the directory with this path, which ends with `/`.
    ///
    /// Of `limit` bytes room is reserved; `None` without memory for them.
    #[must_use]
    pub fn new(directory: &str, limit: usize) -> Option<Self> {
        let mut page = String::new();
        page.try_reserve_exact(limit).ok()?;
        let mut listing = Self {
            page,
            limit,
            complete: true,
        };
        let title = Escaped(directory);
        let parent = if directory == "/" {
            ""
        } else {
            "<li><a href=\"../\">..</a></li>\n"
        };
        listing.add(format_args!(
            "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\n<body><h1>{title}</h1>\n<ul>\n{parent}"
        ));
        Some(listing)
    }

    /// Adds an entry; false if there was no room for it, and none will be for others.
    pub fn add_entry(
        &mut self,
        name: &str,
        is_directory: bool,
        size: u64,
        modified: Option<i64>,
    ) -> bool {
        let end = if is_directory { "/" } else { "" };
        let (text, reference) = (Escaped(name), path::encoded(name));
        let date = modified.and_then(date::format).unwrap_or_default();
        // `./` keeps a name with a colon from being a scheme.
        self.add(format_args!(
            "<li><a href=\"./{reference}{end}\">{text}{end}</a> {size} {date}</li>\n"
        ));
        self.complete
    }

    /// Ends the page and returns it.
    #[must_use]
    pub fn end(mut self) -> String {
        self.page.push_str("</ul>\n");
        if !self.complete {
            self.page.push_str("<p>and more</p>\n");
        }
        self.page.push_str("</body></html>\n");
        self.page
    }

    /// Adds all of a text, or nothing.
    fn add(&mut self, text: fmt::Arguments<'_>) {
        let before = self.page.len();
        let mut bounded = Bounded {
            page: &mut self.page,
            limit: self.limit.saturating_sub(END),
        };
        if !self.complete || bounded.write_fmt(text).is_err() {
            self.page.truncate(before);
            self.complete = false;
        }
    }
}

/// A text that does not grow beyond its limit.
struct Bounded<'a> {
    page: &'a mut String,
    limit: usize,
}

impl Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.page.len() + text.len() > self.limit {
            return Err(fmt::Error);
        }
        self.page.push_str(text);
        Ok(())
    }
}

/// A text that means nothing in HTML but itself.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_they_are() {
        let mut listing = Listing::new("/a&b/", 2000).unwrap();
        assert!(listing.add_entry("<b> \"x\".txt", false, 5, Some(784_111_777)));
        assert!(listing.add_entry("d", true, 0, None));
        let page = listing.end();
        assert!(page.contains("<title>/a&amp;b/</title>"), "{page}");
        assert!(
            page.contains(
                "<a href=\"./%3Cb%3E%20%22x%22.txt\">&lt;b&gt; &quot;x&quot;.txt</a> 5 Sun, 06"
            ),
            "{page}"
        );
        assert!(page.contains("<a href=\"./d/\">d/</a>"), "{page}");
        assert!(page.ends_with("</ul>\n</body></html>\n"), "{page}");
    }

    #[test]
    fn a_large_directory_is_cut_off() {
        let limit = 1000;
        let mut listing = Listing::new("/", limit).unwrap();
        let mut count = 0;
        while listing.add_entry("a name", false, count, None) {
            count += 1;
        }
        assert!(
            !listing.add_entry("a", false, 0, None),
            "an entry is missing in the middle"
        );
        let page = listing.end();
        assert!(page.len() <= limit && page.capacity() == limit);
        assert_eq!(page.matches("<li>").count() as u64, count);
        assert!(count > 10 && page.ends_with("</ul>\n<p>and more</p>\n</body></html>\n"));
    }
}
