//! The screen: three tables, until `q` is pressed.

use crate::view::{LEVEL_HEADER, Line, PROCESS_HEADER, RUNTIME_HEADER, Snapshots};
use anyhow::Result;
use corank_domain::Watcher;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Block, Row, Table};
use std::time::{Duration, Instant};

/// Shows sample after sample. The terminal is as it was, however this ends.
pub(crate) fn run(
    watcher: &mut Watcher,
    domain: &str,
    interval: Duration,
    count: Option<u64>,
) -> Result<()> {
    let mut snapshots = Snapshots::new();
    let mut last = Instant::now();
    let mut shown = 0;
    ratatui::run(|terminal| -> Result<()> {
        while count.is_none_or(|count| shown < count) {
            let now = Instant::now();
            snapshots.add(watcher.snapshot(), now - last);
            last = now;
            let refused: Vec<String> = (watcher.refused())
                .map(|(process, why)| format!(" process {process} is not shown: {why} "))
                .collect();
            terminal.draw(|frame| draw(frame, domain, &snapshots, &refused))?;
            shown += 1;
            if ends_within(interval)? {
                break;
            }
        }
        Ok(())
    })
}

/// Waits for the next sample. Returns true if the user ends the program.
fn ends_within(interval: Duration) -> Result<bool> {
    let began = Instant::now();
    while let Some(left) = interval.checked_sub(began.elapsed()) {
        if !event::poll(left)? {
            break;
        }
        if let Event::Key(key) = event::read()? {
            let interrupts =
                key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
            if interrupts || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn draw(frame: &mut Frame<'_>, domain: &str, snapshots: &Snapshots, refused: &[String]) {
    let processes = snapshots.processes();
    let runtimes = snapshots.runtimes();
    // A header and a border.
    let height = |lines: &[Line]| {
        u16::try_from(lines.len())
            .unwrap_or(u16::MAX)
            .saturating_add(3)
    };
    let [upper, middle, lower] = Layout::vertical([
        Constraint::Max(height(&processes).max(5)),
        Constraint::Max(if runtimes.is_empty() {
            0
        } else {
            height(&runtimes)
        }),
        Constraint::Min(3),
    ])
    .areas(frame.area());
    let title = format!(" domain {domain}: {} processes; q quits ", processes.len());
    let mut table_of_processes = table(title.clone(), &PROCESS_HEADER, &processes);
    if let Some(first) = refused.first() {
        let block = Block::bordered().title(title).title_bottom(first.clone());
        table_of_processes = table_of_processes.block(block);
    }
    frame.render_widget(table_of_processes, upper);
    let title = " runtimes: BUSY is of all workers together ".to_string();
    frame.render_widget(table(title, &RUNTIME_HEADER, &runtimes), middle);
    let title = " levels of the processes that count their coroutines ".to_string();
    frame.render_widget(table(title, &LEVEL_HEADER, &snapshots.levels()), lower);
}

fn table<'a>(title: String, header: &[&'a str], lines: &[Line]) -> Table<'a> {
    let widths: Vec<Constraint> = (header.iter().enumerate())
        .map(|(column, name)| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            let widest = cells.chain([name.len()]).max().unwrap_or(0).min(24);
            Constraint::Length(widest as u16)
        })
        .collect();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new(lines.iter().map(|line| Row::new(line.clone())), widths)
        .header(Row::new(header.to_vec()).style(bold))
        .column_spacing(1)
        .block(Block::bordered().title(title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn an_empty_domain_and_a_tiny_terminal_are_drawn() {
        for (width, height) in [(100, 20), (3, 1), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal
                .draw(|frame| draw(frame, "test", &Snapshots::new(), &["why".into()]))
                .unwrap();
        }
    }
}
