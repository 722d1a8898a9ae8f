//! Line charts as SVG, readable on a light and on a dark page.
//!
//! Text stays text. What belongs to the frame (text, axes, grid) has the colour of the surrounding
//! text. The lines' colours are taken from Okabe and Ito's palette, which colour-blind readers can
//! tell apart, and each line has a mark of its own.

use crate::row::Row;
use crate::table::figure;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use std::ops::Range;

const SIZE: (u32, u32) = (820, 430);
/// The legend's share of the width.
const LEGEND_WIDTH: i32 = 176;

/// Colour that stands for the surrounding text's colour until the figure is finished. No line has
/// it.
const INK: RGBColor = RGBColor(1, 1, 1);
const INK_IN_SVG: &str = "#010101";

/// Style of the figure's ink.
///
/// A figure that stands alone chooses its ink by the reader's preference. Inside a page the page's
/// rules for the class apply.
pub(crate) const THEME: &str = "<style>.corank-figure{color:#24292f}@media(prefers-color-scheme:dark){.corank-figure{color:#d7dde4}}</style>";

/// Description of the horizontal or vertical direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis<'a> {
    /// The quantity and its unit.
    pub(crate) label: &'a str,
    /// Tells whether equal distances mean equal ratios.
    pub(crate) logarithmic: bool,
}

/// A measured point with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dot {
    /// Position on the horizontal axis.
    pub(crate) x: f64,
    /// Position on the vertical axis.
    pub(crate) y: f64,
    /// The smallest of the runs.
    pub(crate) low: f64,
    /// The largest of the runs.
    pub(crate) high: f64,
}

/// Returns the rows' dots over the parameter `x`, from left to right; skips rows without it.
pub(crate) fn dots<'a>(rows: impl Iterator<Item = &'a Row>, x: &str) -> Vec<Dot> {
    let mut dots: Vec<Dot> = rows
        .filter_map(|row| {
            let (low, high) = row.range();
            Some(Dot {
                x: row.number(x)?,
                y: row.median,
                low,
                high,
            })
        })
        .collect();
    dots.sort_by(|one, other| one.x.total_cmp(&other.x));
    dots
}

/// Draws a line for each model over a parameter, coloured in the models' order.
///
/// Returns `None` if no row is of these models.
///
/// # Errors
/// As [`Chart::to_svg`].
pub(crate) fn by_model<'a>(
    title: &str,
    rows: impl Iterator<Item = &'a Row> + Clone,
    models: &[&str],
    (parameter, x): (&str, Axis<'_>),
    y: Axis<'_>,
) -> Result<Option<(String, String)>> {
    let series: Vec<Series> = (models.iter().enumerate())
        .map(|(style, model)| Series {
            name: model.to_string(),
            style,
            dots: dots(rows.clone().filter(|row| row.model == *model), parameter),
        })
        .filter(|series| !series.dots.is_empty())
        .collect();
    if series.is_empty() {
        return Ok(None);
    }
    let chart = Chart {
        title,
        x,
        y,
        series: &series,
    };
    Ok(Some((file_name(title), chart.to_svg()?)))
}

/// One line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// The name in the legend.
    pub(crate) name: String,
    /// The number of its colour and mark, so that one model is drawn alike in every figure.
    pub(crate) style: usize,
    /// The points, from left to right.
    pub(crate) dots: Vec<Dot>,
}

/// A line chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart<'a> {
    /// The title.
    pub(crate) title: &'a str,
    /// The horizontal axis.
    pub(crate) x: Axis<'a>,
    /// The vertical axis.
    pub(crate) y: Axis<'a>,
    /// The lines.
    pub(crate) series: &'a [Series],
}

/// Blue, vermilion, green, purple, orange, light blue, grey, brown: dark enough for white, bright
/// enough for black.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x1f, 0x83, 0xc4),
    RGBColor(0xd9, 0x62, 0x0b),
    RGBColor(0x0a, 0x9a, 0x74),
    RGBColor(0xbb, 0x67, 0x99),
    RGBColor(0xb8, 0x86, 0x0b),
    RGBColor(0x4a, 0xa8, 0xdc),
    RGBColor(0x80, 0x80, 0x80),
    RGBColor(0x96, 0x5a, 0x3c),
];

impl Chart<'_> {
    /// Draws the chart as a complete SVG document.
    ///
    /// # Errors
    /// If there is nothing to draw, or a logarithmic axis would have to show 0.
    pub(crate) fn to_svg(&self) -> Result<String> {
        let dots = || self.series.iter().flat_map(|series| &series.dots);
        let x = range(self.x, dots().map(|dot| dot.x))?;
        let y = range(self.y, dots().flat_map(|dot| [dot.low, dot.high]))?;
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            match (self.x.logarithmic, self.y.logarithmic) {
                (false, false) => self.draw(&root, x, y),
                (false, true) => self.draw(&root, x, y.log_scale()),
                (true, false) => self.draw(&root, x.log_scale(), y),
                (true, true) => self.draw(&root, x.log_scale(), y.log_scale()),
            }?;
            root.present().map_err(failed)?;
        }
        Ok(self.finish(&svg))
    }

    fn draw<'a, X, Y>(
        &self,
        root: &DrawingArea<SVGBackend<'a>, Shift>,
        x: impl plotters::coord::ranged1d::AsRangedCoord<CoordDescType = X, Value = f64>,
        y: impl plotters::coord::ranged1d::AsRangedCoord<CoordDescType = Y, Value = f64>,
    ) -> Result<()>
    where
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let text = ("sans-serif", 14).into_font().color(&INK);
        let mut chart = ChartBuilder::on(root)
            .caption(self.title, ("sans-serif", 18).into_font().color(&INK))
            .margin(12)
            .margin_right(LEGEND_WIDTH)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .label_style(text.clone())
            .axis_desc_style(text.clone())
            .axis_style(INK.mix(0.6))
            .bold_line_style(INK.mix(0.14))
            .light_line_style(INK.mix(0.0))
            .x_labels(9)
            .y_labels(8)
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .draw()
            .map_err(failed)?;
        for series in self.series {
            let colour = COLOURS[series.style % COLOURS.len()];
            let line = series.dots.iter().map(|dot| (dot.x, dot.y));
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)))
                .map_err(failed)?;
            let spread = series.dots.iter().filter(|dot| dot.high > dot.low);
            chart
                .draw_series(spread.map(|dot| {
                    PathElement::new(
                        [(dot.x, dot.low), (dot.x, dot.high)],
                        colour.mix(0.55).stroke_width(2),
                    )
                }))
                .map_err(failed)?;
            chart
                .draw_series(
                    series
                        .dots
                        .iter()
                        .map(|dot| EmptyElement::at((dot.x, dot.y)) + mark(series.style)),
                )
                .map_err(failed)?;
        }
        self.legend(root, &text)
    }

    /// Names the lines, to the right of the plot where no line can run.
    fn legend(
        &self,
        root: &DrawingArea<SVGBackend<'_>, Shift>,
        text: &TextStyle<'_>,
    ) -> Result<()> {
        for (row, series) in (0..).zip(self.series) {
            let colour = COLOURS[series.style % COLOURS.len()];
            let (x, y) = (SIZE.0 as i32 - LEGEND_WIDTH + 24, 56 + 24 * row);
            let line = PathElement::new([(-11, 0), (11, 0)], colour.stroke_width(2));
            let name = Text::new(series.name.clone(), (18, -7), text.clone());
            root.draw(&(EmptyElement::at((x, y)) + line + mark(series.style) + name))
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Gives the figure its ink, its theme and a description for screen readers.
    fn finish(&self, svg: &str) -> String {
        let names: Vec<&str> = self
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        let label = crate::table::escape(&format!("{}: {}", self.title, names.join(", ")));
        let opening = format!("<svg class=\"corank-figure\" role=\"img\" aria-label=\"{label}\" ");
        let svg = svg
            .replacen("<svg ", &opening, 1)
            .replace(INK_IN_SVG, "currentColor");
        let end_of_tag = svg.find('>').map_or(0, |at| at + 1);
        format!("{}{THEME}{}", &svg[..end_of_tag], &svg[end_of_tag..])
    }
}

/// Returns the mark of a style, as the corners of a filled polygon around (0, 0).
///
/// The marks are disc, triangle, square, diamond, triangle upside down, two bars, and a triangle to
/// the right.
fn mark(style: usize) -> Polygon<(i32, i32)> {
    let corners: &[(i32, i32)] = match style % COLOURS.len() {
        0 => &[
            (-4, -2),
            (-2, -4),
            (2, -4),
            (4, -2),
            (4, 2),
            (2, 4),
            (-2, 4),
            (-4, 2),
        ],
        1 => &[(0, -5), (5, 4), (-5, 4)],
        2 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        3 => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        4 => &[(0, 5), (5, -4), (-5, -4)],
        5 => &[(-6, -2), (6, -2), (6, 2), (-6, 2)],
        6 => &[(-2, -6), (2, -6), (2, 6), (-2, 6)],
        _ => &[(-4, -5), (5, 0), (-4, 5)],
    };
    Polygon::new(corners.to_vec(), COLOURS[style % COLOURS.len()].filled())
}

/// Returns the range of an axis, which begins at 0 if it is linear.
fn range(axis: Axis, values: impl Iterator<Item = f64>) -> Result<Range<f64>> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    if low > high {
        return Err(anyhow!("nothing to draw on the axis `{}`", axis.label));
    }
    if !axis.logarithmic {
        return Ok(0.0..if high > 0.0 { high * 1.06 } else { 1.0 });
    }
    if low <= 0.0 {
        return Err(anyhow!("0 on the logarithmic axis `{}`", axis.label));
    }
    // Whole powers of ten, which the axis labels, but not a whole empty one for a point that only
    // just crosses a border.
    let decade = |value: f64, round: fn(f64) -> f64| 10f64.powf(round(value.log10()));
    Ok(0.999 * decade(low * 1.05, f64::floor).min(low / 1.1)
        ..decade(high / 1.05, f64::ceil).max(high * 1.1))
}

/// Formats a label of an axis.
fn tick(value: f64) -> String {
    if value.abs() >= 1000.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        figure(value)
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_string()
    }
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("can't draw the figure: {error}")
}

/// Turns a title into a file's name: small letters, digits, and `-` for everything between.
pub(crate) fn file_name(title: &str) -> String {
    let words = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(x: f64, y: f64) -> Dot {
        Dot {
            x,
            y,
            low: y * 0.9,
            high: y * 1.1,
        }
    }

    fn chart(series: &[Series], logarithmic: bool) -> Result<String> {
        let axis = Axis {
            label: "time, ms",
            logarithmic,
        };
        Chart {
            title: "A & B",
            x: Axis {
                label: "tasks",
                logarithmic: false,
            },
            y: axis,
            series,
        }
        .to_svg()
    }

    #[test]
    fn a_figure_has_its_texts_and_no_ink_of_its_own() {
        let series = [Series {
            name: "coroutines".to_string(),
            style: 0,
            dots: vec![dot(200.0, 1.0), dot(4000.0, 90.0)],
        }];
        for logarithmic in [false, true] {
            let svg = chart(&series, logarithmic).unwrap();
            for text in [
                "A &amp; B",
                "time, ms",
                "tasks",
                "coroutines",
                "currentColor",
                "prefers-color-scheme",
            ] {
                assert!(svg.contains(text), "{text} is missing");
            }
            assert!(!svg.contains(INK_IN_SVG));
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_an_error() {
        assert!(chart(&[], false).is_err());
        let zero = [Series {
            name: "zero".to_string(),
            style: 0,
            dots: vec![dot(1.0, 0.0)],
        }];
        assert!(chart(&zero, false).is_ok());
        assert!(chart(&zero, true).is_err());
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!(
            [0.0, 0.5, 2.0, 1500.0, 0.001].map(tick),
            ["0", "0.5", "2", "1500", "0.001"]
        );
    }
}
