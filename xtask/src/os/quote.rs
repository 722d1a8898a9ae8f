//! Putting arguments into the kernel's command line, which is one string with spaces between words.
//!
//! Every byte outside `A-Z a-z 0-9 _ . / , : = + @ -` becomes `%` and two upper-case hexadecimal digits; the kernel turns them
//! back. An empty argument would vanish between two spaces: it becomes a lone `%`.

/// The words of the command line as one string.
pub(super) fn command_line(words: &[String]) -> String {
    words
        .iter()
        .map(|word| quote(word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quote(word: &str) -> String {
    if word.is_empty() {
        return "%".to_string();
    }
    let mut quoted = String::with_capacity(word.len());
    for byte in word.bytes() {
        if byte.is_ascii_alphanumeric() || b"_./,:=+@-".contains(&byte) {
            quoted.push(byte.into());
        } else {
            quoted.push_str(&format!("%{byte:02X}"));
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> String {
        command_line(
            &words
                .iter()
                .map(|word| word.to_string())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn plain_words_stay_as_they_are() {
        assert_eq!(
            line(&["experiment-a", "--quick", "n=200,400", "/a_b.c:d+e@f"]),
            "experiment-a --quick n=200,400 /a_b.c:d+e@f"
        );
    }

    #[test]
    fn everything_else_is_encoded() {
        assert_eq!(
            line(&["echo", "two words", "50%", "é", ""]),
            "echo two%20words 50%25 %C3%A9 %"
        );
    }
}
