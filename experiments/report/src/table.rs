//! Tables: aligned text for the terminal, HTML for the page, Markdown for the documentation.

/// A table; every row has as many cells as the header.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Title, which says what the table shows.
    pub title: String,
    /// The columns' titles.
    pub header: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table.
    pub fn new(title: impl Into<String>, header: &[&str]) -> Self {
        Self {
            title: title.into(),
            header: header.iter().map(|cell| cell.to_string()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the number of cells is not that of the header.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(
            row.len(),
            self.header.len(),
            "a row of another width in the table `{}`",
            self.title
        );
        self.rows.push(row);
    }

    /// Returns title, header and rows with aligned columns: numbers to the right, others to the
    /// left.
    pub fn to_text(&self) -> String {
        let lines: Vec<&Vec<String>> = std::iter::once(&self.header).chain(&self.rows).collect();
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| {
                lines
                    .iter()
                    .map(|line| line[column].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut text = format!("{}\n", self.title);
        for line in lines {
            let mut shown = String::from(" ");
            for (column, cell) in line.iter().enumerate() {
                let padding = " ".repeat(widths[column] - cell.chars().count());
                let (before, after) = if self.is_numeric(column) {
                    (padding.as_str(), "")
                } else {
                    ("", padding.as_str())
                };
                shown.push_str(&format!(" {before}{cell}{after} "));
            }
            text.push_str(shown.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns a `<table>` with the title as caption.
    pub fn to_html(&self) -> String {
        let cells = |tag: &str, line: &[String]| -> String {
            let cell = |(column, cell): (usize, &String)| {
                let class = if self.is_numeric(column) {
                    " class=\"number\""
                } else {
                    ""
                };
                format!("<{tag}{class}>{}</{tag}>", escape(cell))
            };
            line.iter().enumerate().map(cell).collect()
        };
        let body: String = self
            .rows
            .iter()
            .map(|row| format!("<tr>{}</tr>\n", cells("td", row)))
            .collect();
        format!(
            "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>{}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n",
            escape(&self.title),
            cells("th", &self.header)
        )
    }

    /// Returns header and rows as Markdown, without the title.
    pub fn to_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!(
            "{}|{}\n{rows}",
            line(&self.header),
            "---|".repeat(self.header.len())
        )
    }

    /// Tests whether every cell of a column is empty or begins like a number.
    fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().all(|row| {
            let cell = row[column].trim_start_matches(['-', '~', '–']);
            cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit())
        })
    }
}

/// Formats three significant digits, without an exponent; large numbers whole.
///
/// A ratio to nothing is `∞`, and one of nothing to nothing `–`.
pub fn figure(value: f64) -> String {
    if value.is_nan() {
        return "–".to_string();
    }
    if value.is_infinite() {
        return "∞".to_string();
    }
    if value == 0.0 {
        return "0".to_string();
    }
    let digits_before = value.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from(3 - digits_before).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new("A title", &["model", "N", "time"]);
        table.push(vec!["coroutine".into(), "200".into(), "1.5".into()]);
        table.push(vec!["µ".into(), "4000".into(), String::new()]);
        assert_eq!(
            table.to_text(),
            "A title\n  model         N  time\n  coroutine   200   1.5\n  µ          4000\n"
        );
    }

    #[test]
    fn markdown_has_a_line_below_the_header() {
        let mut table = Table::new("A title", &["", "N"]);
        table.push(vec!["coroutine".into(), "200".into()]);
        assert_eq!(
            table.to_markdown(),
            "|  | N |\n|---|---|\n| coroutine | 200 |\n"
        );
    }

    #[test]
    fn html_is_escaped_and_marks_numbers() {
        let mut table = Table::new("a < b", &["x", "y"]);
        table.push(vec!["<1>".into(), "2".into()]);
        let html = table.to_html();
        assert!(html.contains("<caption>a &lt; b</caption>"));
        assert!(html.contains("<tr><td>&lt;1&gt;</td><td class=\"number\">2</td></tr>"));
    }

    #[test]
    fn three_significant_digits() {
        let shown = [0.0, 0.012345, 1.0, 12.345, 999.6, 12345.6].map(figure);
        assert_eq!(shown, ["0", "0.0123", "1.00", "12.3", "1000", "12346"]);
        assert_eq!([f64::INFINITY, f64::NAN].map(figure), ["∞", "–"]);
    }
}
