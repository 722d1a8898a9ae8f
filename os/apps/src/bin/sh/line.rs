//! Turns words and signs into pipelines to run.
use crate::words::{Token, Word};
use alloc::vec::Vec;
use core::iter::Peekable;
use core::mem;

/// Condition on which a pipeline runs, after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// In any case.
    Always,
    /// If the one before it has succeeded.
    AfterSuccess,
    /// If the one before it has failed.
    AfterFailure,
}

/// Programs that run at once, each reading what the one before it writes.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) when: When,
    pub(crate) commands: Vec<Command>,
    pub(crate) background: bool,
}

/// A file that replaces a descriptor.
#[derive(Debug)]
pub(crate) struct Redirection {
    pub(crate) descriptor: usize,
    pub(crate) path: Word,
    pub(crate) kind: Kind,
}

/// Use that is made of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Append,
}

/// One program.
#[derive(Debug, Default)]
pub(crate) struct Command {
    /// Its name and its arguments.
    pub(crate) words: Vec<Word>,
    pub(crate) redirections: Vec<Redirection>,
}

/// Parses a line.
///
/// # Errors
/// What is wrong with it, as a message.
pub(crate) fn parse(tokens: Vec<Token>) -> Result<Vec<Pipeline>, &'static str> {
    let mut tokens = tokens.into_iter().peekable();
    let mut pipelines = Vec::new();
    let mut when = When::Always;
    while tokens.peek().is_some() {
        let commands = commands(&mut tokens)?;
        let mut background = false;
        let next = match tokens.next() {
            None | Some(Token::Semicolon) => When::Always,
            Some(Token::Ampersand) => {
                background = true;
                When::Always
            }
            Some(Token::And) => When::AfterSuccess,
            Some(Token::Or) => When::AfterFailure,
            Some(_) => return Err("a sign stands where a command should"),
        };
        if next != When::Always && tokens.peek().is_none() {
            return Err("a command is missing at the end");
        }
        pipelines.push(Pipeline {
            when: mem::replace(&mut when, next),
            commands,
            background,
        });
    }
    Ok(pipelines)
}

fn commands(
    tokens: &mut Peekable<impl Iterator<Item = Token>>,
) -> Result<Vec<Command>, &'static str> {
    let mut commands = Vec::new();
    loop {
        let mut command = Command::default();
        while let Some(token) = tokens.next_if(|token| {
            matches!(
                token,
                Token::Word(_) | Token::Input | Token::Output(_) | Token::Append(_)
            )
        }) {
            let (descriptor, kind) = match token {
                Token::Word(word) => {
                    command.words.push(word);
                    continue;
                }
                Token::Output(descriptor) => (descriptor, Kind::Write),
                Token::Append(descriptor) => (descriptor, Kind::Append),
                _ => (0, Kind::Read),
            };
            let Some(Token::Word(path)) = tokens.next() else {
                return Err("a file's name is missing");
            };
            command.redirections.push(Redirection {
                descriptor,
                path,
                kind,
            });
        }
        if command.words.is_empty() {
            return Err("a command is missing");
        }
        commands.push(command);
        if tokens.next_if_eq(&Token::Pipe).is_none() {
            return Ok(commands);
        }
    }
}
