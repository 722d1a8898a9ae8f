//! Heat maps as SVG: a table of factors in which colour says what gains and what loses.
//!
//! As in [`crate::chart`]: text stays text, in the colour of the surrounding text.

use crate::chart::THEME;
use crate::table::{escape, figure};
use std::fmt::Write;

const CELL: (usize, usize) = (98, 30);
/// Width that a letter of the title takes at most.
const LETTER: usize = 9;
const LEFT: usize = 220;
const TOP: usize = 66;

/// A factor for each column of each line.
#[derive(Clone, Debug)]
pub(crate) struct HeatMap<'a> {
    /// The title.
    pub(crate) title: &'a str,
    /// The parameter of the columns.
    pub(crate) across: &'a str,
    /// The columns.
    pub(crate) columns: Vec<String>,
    /// The lines, each with its name; `None` where nothing was measured.
    pub(crate) lines: Vec<(String, Vec<Option<f64>>)>,
}

impl HeatMap<'_> {
    /// Draws the heat map as a complete SVG document.
    pub(crate) fn to_svg(&self) -> String {
        let table = LEFT + CELL.0 * self.columns.len() + 20;
        let width = table.max(LETTER * self.title.chars().count() + 20);
        let height = TOP + CELL.1 * self.lines.len() + 16;
        let mut svg = format!(
            "<svg class=\"corank-figure\" role=\"img\" aria-label=\"{0}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             xmlns=\"http://www.w3.org/2000/svg\">{THEME}<g font-family=\"sans-serif\" font-size=\"13\" fill=\"currentColor\">\n\
             <text x=\"{1}\" y=\"22\" font-size=\"17\" text-anchor=\"middle\">{0}</text>\n<text x=\"{2}\" y=\"{3}\" text-anchor=\"end\">{4}</text>\n",
            escape(self.title),
            width / 2,
            LEFT - 10,
            TOP - 10,
            escape(self.across),
        );
        for (column, name) in self.columns.iter().enumerate() {
            let x = LEFT + CELL.0 * column + CELL.0 / 2;
            let y = TOP - 10;
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                escape(name)
            );
        }
        for (line, (name, values)) in self.lines.iter().enumerate() {
            let y = TOP + CELL.1 * line;
            let text_y = y + CELL.1 / 2 + 5;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{text_y}\" text-anchor=\"end\">{}</text>",
                LEFT - 10,
                escape(name)
            );
            for (column, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let x = LEFT + CELL.0 * column;
                let (colour, strength) = shade(*value);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{colour}\" fill-opacity=\"{strength:.2}\"/>\
                     <text x=\"{}\" y=\"{text_y}\" text-anchor=\"middle\">{}</text>",
                    CELL.0 - 2,
                    CELL.1 - 2,
                    x + CELL.0 / 2 - 1,
                    figure(*value)
                );
            }
        }
        svg + "</g></svg>\n"
    }
}

/// Returns the colour of a factor: blue above 1, vermilion below, the stronger the further.
///
/// Four times as much is as strong as it gets, so that text stays readable on it.
fn shade(factor: f64) -> (&'static str, f64) {
    let colour = if factor >= 1.0 { "#1f83c4" } else { "#d9620b" };
    (colour, (factor.log2().abs() / 2.0).min(1.0) * 0.65)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_and_losses_differ_in_colour() {
        assert_eq!(shade(1.0).1, 0.0);
        assert_eq!(shade(4.0), ("#1f83c4", 0.65));
        assert_eq!(shade(100.0), shade(4.0));
        assert_eq!(shade(0.25), ("#d9620b", 0.65));
    }

    #[test]
    fn a_map_names_what_it_shows() {
        let svg = HeatMap {
            title: "a < b",
            across: "width",
            columns: vec!["2".into(), "4".into()],
            lines: vec![("1 MiB".into(), vec![Some(1.5), None])],
        }
        .to_svg();
        for text in [
            "a &lt; b",
            "width",
            "1 MiB",
            ">1.50<",
            "prefers-color-scheme",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert_eq!(svg.matches("<rect").count(), 1);
    }
}
