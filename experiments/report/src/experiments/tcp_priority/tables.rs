//! The numbers of experiment `tcp-priority`, by level.

use super::{BOUNDED, LOADS, STRICT, rows};
use crate::document::Document;
use crate::experiments::answers::{self, SHOWN};
use crate::row::Row;
use crate::table::{Table, figure};

/// Returns throughput and latency by level for each number of harts and load.
///
/// It adds each level's mean latency divided by that of level 0.
pub(crate) fn tables(document: &Document) -> Vec<Table> {
    let harts = answers::values(document, "harts").into_iter();
    harts
        .flat_map(|harts| LOADS.map(|load| table(document, harts, load)))
        .filter(|table| !table.rows.is_empty())
        .collect()
}

fn table(document: &Document, harts: f64, load: &str) -> Table {
    let mut header = vec!["policy", "level", "requests/s"];
    header.extend(SHOWN.map(|(_, column)| column));
    header.push("mean / level 0");
    let mut table = Table::new(
        format!("TCP server, {load}, harts {harts}: requests/s, latency in ms, and answers"),
        &header,
    );
    for model in [STRICT, BOUNDED] {
        let of_level = |metric, level| -> Option<f64> {
            let fits = |row: &&Row| {
                row.number("harts") == Some(harts) && row.number("priority") == Some(level)
            };
            Some(rows(document, model, load, metric).find(fits)?.median)
        };
        for level in answers::values(document, "priority") {
            let Some(throughput) = of_level("throughput", level) else {
                continue;
            };
            let mut cells = vec![model.to_string(), level.to_string(), figure(throughput)];
            let shown = |value: Option<f64>| value.map(figure).unwrap_or_default();
            cells.extend(SHOWN.map(|(metric, _)| shown(of_level(metric, level))));
            let mean = |level| of_level("latency-mean", level);
            let apart = || Some(mean(level)? / mean(0.0).filter(|first| *first > 0.0)?);
            cells.push(shown(apart()));
            table.push(cells);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use crate::sample::document;

    #[test]
    fn levels_stand_below_each_other() {
        let rows = [
            row(STRICT, "overload", "throughput", 0, 320.0),
            row(STRICT, "overload", "latency-mean", 0, 2.0),
            row(STRICT, "overload", "throughput", 7, 10.0),
            row(STRICT, "overload", "latency-mean", 7, 30.0),
            row(STRICT, "overload", "late-answers", 7, 3.0),
        ];
        let tables = tables(&document("tcp-priority", &rows));
        assert_eq!(tables.len(), 1);
        let last = [
            STRICT, "7", "10.0", "30.0", "", "", "", "3.00", "", "", "15.0",
        ];
        assert_eq!(tables[0].rows[1], last);
    }
}
