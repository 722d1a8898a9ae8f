//! Typing a line on the console.
//!
//! Arrows, Home, End, Delete, Backspace; Ctrl-A and Ctrl-E for the ends of the line, Ctrl-U and
//! Ctrl-K to erase up to them, Ctrl-W for a word, Ctrl-L for a clean screen; up and down for
//! earlier lines. Ctrl-C drops the line, Ctrl-D on an empty one ends the input.
use alloc::string::String;
use alloc::vec::Vec;
use corank_user::io::STDIN;
use corank_user::{print, println};

/// Number of lines that are remembered.
const REMEMBERED: usize = 100;

/// Editor that remembers what was typed.
pub(crate) struct Editor {
    history: Vec<String>,
}

/// A key that was typed.
enum Key {
    Character(u8),
    Enter,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Start,
    End,
    EraseToStart,
    EraseToEnd,
    EraseWord,
    Redraw,
    GiveUp,
    Close,
    Other,
}

/// The line that is being typed, in ASCII.
struct Line<'a> {
    prompt: &'a str,
    text: String,
    /// Where the next character goes.
    at: usize,
}

fn read_byte() -> Option<u8> {
    let mut byte = [0];
    match STDIN.read(&mut byte) {
        Ok(1) => Some(byte[0]),
        _ => None,
    }
}

/// Reads the next key; returns `None` at the end of the input.
fn read_key() -> Option<Key> {
    Some(match read_byte()? {
        b'\r' | b'\n' => Key::Enter,
        8 | 127 => Key::Backspace,
        1 => Key::Start,
        2 => Key::Left,
        3 => Key::GiveUp,
        4 => Key::Close,
        5 => Key::End,
        6 => Key::Right,
        11 => Key::EraseToEnd,
        12 => Key::Redraw,
        14 => Key::Down,
        16 => Key::Up,
        21 => Key::EraseToStart,
        23 => Key::EraseWord,
        27 => escape()?,
        byte if byte.is_ascii_graphic() || byte == b' ' => Key::Character(byte),
        _ => Key::Other,
    })
}

/// Reads what a terminal sends behind an escape character: `[`, maybe a number, and a letter or
/// `~`.
fn escape() -> Option<Key> {
    if !matches!(read_byte()?, b'[' | b'O') {
        return Some(Key::Other);
    }
    let mut number = 0;
    loop {
        return Some(match read_byte()? {
            digit @ b'0'..=b'9' => {
                number = number * 10 % 1000 + u32::from(digit - b'0');
                continue;
            }
            b'A' => Key::Up,
            b'B' => Key::Down,
            b'C' => Key::Right,
            b'D' => Key::Left,
            b'H' => Key::Start,
            b'F' => Key::End,
            b'~' => match number {
                1 | 7 => Key::Start,
                3 => Key::Delete,
                4 | 8 => Key::End,
                _ => Key::Other,
            },
            _ => Key::Other,
        });
    }
}

impl Line<'_> {
    fn replace(&mut self, text: &str) {
        self.text = String::from(text);
        self.at = self.text.len();
        self.draw();
    }

    /// Draws the line anew, with the cursor where it belongs.
    fn draw(&self) {
        let back = self.text.len() - self.at;
        print!("\r{}{}\x1b[K", self.prompt, self.text);
        if back > 0 {
            print!("\x1b[{back}D");
        }
    }

    fn edit(&mut self, key: &Key) {
        let end = self.text.len();
        match key {
            Key::Character(byte) => {
                self.text.insert(self.at, char::from(*byte));
                self.at += 1;
                if self.at == self.text.len() {
                    // The usual case costs one character.
                    return print!("{}", char::from(*byte));
                }
            }
            Key::Backspace if self.at > 0 => {
                self.at -= 1;
                self.text.remove(self.at);
            }
            Key::Delete if self.at < end => {
                self.text.remove(self.at);
            }
            Key::Left => self.at = self.at.saturating_sub(1),
            Key::Right => self.at = end.min(self.at + 1),
            Key::Start => self.at = 0,
            Key::End => self.at = end,
            Key::EraseToStart => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            Key::EraseToEnd => self.text.truncate(self.at),
            Key::EraseWord => {
                let before = self.text[..self.at].trim_end();
                let start = before.rfind(' ').map_or(0, |space| space + 1);
                self.text.drain(start..self.at);
                self.at = start;
            }
            Key::Redraw => print!("\x1b[H\x1b[2J"),
            _ => return,
        }
        self.draw();
    }
}

impl Editor {
    pub(crate) fn new() -> Editor {
        Editor {
            history: Vec::new(),
        }
    }

    /// Reads a line; returns `None` at the end of the input.
    pub(crate) fn read_line(&mut self, prompt: &str) -> Option<String> {
        let mut line = Line {
            prompt,
            text: String::new(),
            at: 0,
        };
        print!("{prompt}");
        // Index of the remembered line that is shown; the number of lines for the one that is new.
        let mut shown = self.history.len();
        let mut unfinished = String::new();
        loop {
            match read_key()? {
                Key::Enter => break,
                Key::Close if line.text.is_empty() => {
                    println!();
                    return None;
                }
                Key::GiveUp => {
                    println!("^C");
                    return Some(String::new());
                }
                Key::Up if shown > 0 => {
                    if shown == self.history.len() {
                        unfinished = line.text.clone();
                    }
                    shown -= 1;
                    line.replace(&self.history[shown]);
                }
                Key::Down if shown < self.history.len() => {
                    shown += 1;
                    line.replace(self.history.get(shown).unwrap_or(&unfinished));
                }
                key => line.edit(&key),
            }
        }
        println!();
        self.remember(&line.text);
        Some(line.text)
    }

    fn remember(&mut self, line: &str) {
        if line.trim().is_empty() || self.history.last().is_some_and(|last| last == line) {
            return;
        }
        if self.history.len() == REMEMBERED {
            self.history.remove(0);
        }
        self.history.push(String::from(line));
    }
}
