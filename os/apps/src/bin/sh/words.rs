//! Turns a line's characters into words and signs.
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::iter::Peekable;
use core::str::Chars;

/// A word without its quotes.
///
/// It consists of texts, and of what stands for a value that is known only when the command runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// `$` and this character.
    Variable(char),
}

/// The characters that stand for something behind a `$`.
const VARIABLES: [char; 2] = ['?', '!'];

impl Word {
    fn push(&mut self, character: char) {
        match self.0.last_mut() {
            Some(Part::Text(text)) => text.push(character),
            _ => self.0.push(Part::Text(String::from(character))),
        }
    }

    /// Returns the word with what `value` gives for its variables.
    pub(crate) fn expand(&self, value: impl Fn(char) -> String) -> String {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Variable(name) => value(*name),
            })
            .collect()
    }
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A word.
    Word(Word),
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

/// Splits a line.
///
/// # Errors
/// What is wrong with the line, as a message.
pub(crate) fn split(line: &str) -> Result<Vec<Token>, String> {
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
            None => word(&mut characters)?,
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

fn word(characters: &mut Peekable<Chars<'_>>) -> Result<Token, String> {
    // A word may be empty: `''`.
    let mut word = Word(vec![Part::Text(String::new())]);
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
                        other => ['\\', other].into_iter().for_each(|c| word.push(c)),
                    },
                    '$' => variable(characters, &mut word),
                    character => word.push(character),
                }
            },
            '\\' => characters.next().into_iter().for_each(|c| word.push(c)),
            '$' => variable(characters, &mut word),
            character => word.push(character),
        }
    }
    Ok(Token::Word(word))
}

fn variable(characters: &mut Peekable<Chars<'_>>, word: &mut Word) {
    match characters.next_if(|name| VARIABLES.contains(name)) {
        Some(name) => word.0.push(Part::Variable(name)),
        None => word.push('$'),
    }
}
