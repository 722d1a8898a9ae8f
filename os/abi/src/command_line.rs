//! The kernel's command line: the first program's name and its arguments as one string, with a
//! space between words.
//!
//! Every byte of a word outside `A-Z a-z 0-9 _ . / , : = + @ -` stands as `%` and two hexadecimal
//! digits. An empty word, which would vanish between two spaces, is a lone `%`.

/// Returns the bytes of a word as they stand on the command line.
///
/// ```
/// # use corank_abi::command_line::quote;
/// assert_eq!(quote("two words").collect::<String>(), "two%20words");
/// ```
pub fn quote(word: &str) -> impl Iterator<Item = char> {
    let digit = |value: u8| {
        char::from_digit(value.into(), 16)
            .unwrap_or('0')
            .to_ascii_uppercase()
    };
    let empty = word.is_empty().then_some('%');
    let bytes = word.bytes().flat_map(move |byte| {
        let plain = byte.is_ascii_alphanumeric() || b"_./,:=+@-".contains(&byte);
        let characters = if plain {
            [Some(byte.into()), None, None]
        } else {
            [Some('%'), Some(digit(byte >> 4)), Some(digit(byte & 15))]
        };
        characters.into_iter().flatten()
    });
    empty.into_iter().chain(bytes)
}

/// Returns the bytes that a word of the command line stands for.
///
/// A `%` without two digits behind it is dropped.
///
/// ```
/// # use corank_abi::command_line::unquote;
/// assert_eq!(unquote("two%20words").collect::<Vec<u8>>(), b"two words");
/// ```
pub fn unquote(word: &str) -> impl Iterator<Item = u8> {
    let mut rest = word.as_bytes();
    core::iter::from_fn(move || {
        loop {
            let (&first, after) = rest.split_first()?;
            rest = after;
            if first != b'%' {
                return Some(first);
            }
            if let [high, low, after @ ..] = rest
                && let (Some(high), Some(low)) = (hexadecimal(*high), hexadecimal(*low))
            {
                rest = after;
                return Some(high << 4 | low);
            }
        }
    })
}

fn hexadecimal(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}
