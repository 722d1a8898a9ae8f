//! From a line's characters to words and signs.
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter::Peekable;
use core::str::Chars;

/// What a line consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A word, without its quotes.
    Word(String),
    /// `|`
    Pipe,
    /// `;`
    Semicolon,
    /// `&`
    Ampersand,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `<`
    Input,
    /// `>` and `2>`: the number of the descriptor.
    Output(usize),
    /// `>>` and `2>>`
    Append(usize),
}

/// Splits a line. `value` gives what stands for `$` and a character.
///
/// # Errors
/// What is wrong with the line, as a message.
pub(crate) fn split(
    line: &str,
    value: impl Fn(char) -> Option<String>,
) -> Result<Vec<Token>, String> {
    let mut characters = line.chars().peekable();
    let mut tokens = Vec::new();
    loop {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(&first) = characters.peek() else {
            return Ok(tokens);
        };
        if first == '#' {
            return Ok(tokens);
        }
        let token = match sign(&mut characters) {
            Some(token) => token,
            None => word(&mut characters, &value)?,
        };
        tokens.push(token);
    }
}

fn sign(characters: &mut Peekable<Chars<'_>>) -> Option<Token> {
    let mut ahead = characters.clone();
    let first = ahead.next()?;
    let doubled = ahead.next_if_eq(&first).is_some();
    let token = match (first, doubled) {
        ('|', false) => Token::Pipe,
        ('|', true) => Token::Or,
        ('&', false) => Token::Ampersand,
        ('&', true) => Token::And,
        ('>', false) => Token::Output(1),
        ('>', true) => Token::Append(1),
        (';', _) => {
            characters.next();
            return Some(Token::Semicolon);
        }
        ('<', _) => {
            characters.next();
            return Some(Token::Input);
        }
        ('2', false) if ahead.next_if_eq(&'>').is_some() => {
            if ahead.next_if_eq(&'>').is_some() {
                Token::Append(2)
            } else {
                Token::Output(2)
            }
        }
        _ => return None,
    };
    *characters = ahead;
    Some(token)
}

fn word(
    characters: &mut Peekable<Chars<'_>>,
    value: &impl Fn(char) -> Option<String>,
) -> Result<Token, String> {
    let mut word = String::new();
    let unfinished = |quote| format!("there is no {quote} at the end");
    while let Some(&next) = characters.peek() {
        if next.is_whitespace() || "|&;<>".contains(next) {
            break;
        }
        characters.next();
        match next {
            '\'' => loop {
                match characters.next().ok_or_else(|| unfinished('\''))? {
                    '\'' => break,
                    character => word.push(character),
                }
            },
            '"' => loop {
                match characters.next().ok_or_else(|| unfinished('"'))? {
                    '"' => break,
                    '\\' => match characters.next().ok_or_else(|| unfinished('"'))? {
                        character @ ('"' | '\\' | '$') => word.push(character),
                        other => word.extend(['\\', other]),
                    },
                    '$' => variable(characters, value, &mut word),
                    character => word.push(character),
                }
            },
            '\\' => word.extend(characters.next()),
            '$' => variable(characters, value, &mut word),
            character => word.push(character),
        }
    }
    Ok(Token::Word(word))
}

/// Replaces `$` and the next character, if they stand for something.
fn variable(
    characters: &mut Peekable<Chars<'_>>,
    value: &impl Fn(char) -> Option<String>,
    word: &mut String,
) {
    match characters.peek().and_then(|name| value(*name)) {
        Some(value) => {
            characters.next();
            word.push_str(&value);
        }
        None => word.push('$'),
    }
}
