//! The kernel's command line, as [`corank_abi::command_line`] defines it.

use corank_abi::command_line::quote;

/// Returns the words of the command line as one string.
pub(super) fn command_line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word).collect()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use corank_abi::command_line::unquote;

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
        let words = ["experiment-a", "--quick", "n=200,400", "/a_b.c:d+e@f"];
        assert_eq!(line(&words), words.join(" "));
    }

    #[test]
    fn everything_else_is_encoded() {
        assert_eq!(
            line(&["echo", "two words", "50%", "é", ""]),
            "echo two%20words 50%25 %C3%A9 %"
        );
    }

    #[test]
    fn the_kernel_reads_what_was_meant() {
        let words = ["echo", "two words", "50%", "%41", "é\n", "", "\\ \"'"];
        let line = line(&words);
        let read: Vec<Vec<u8>> = line
            .split_whitespace()
            .map(|word| unquote(word).collect())
            .collect();
        assert_eq!(read, words.map(|word| word.as_bytes().to_vec()));
    }

    #[test]
    fn digits_that_are_none_do_no_harm() {
        let read = |word: &str| String::from_utf8(unquote(word).collect()).unwrap();
        assert_eq!(
            ["%", "%4", "%zz", "a%2", "100%25"].map(read),
            ["", "4", "zz", "a2", "100%"]
        );
    }
}
