//! The numbers of experiment `tcp-models`, beside the paper's.

use super::{MODELS, OURS, Scene, THREADS, beside};
use crate::answers::SHOWN;
use crate::document::Document;
use crate::papers::{self, Served};
use crate::row::Row;
use crate::table::{Table, figure};

/// For each kind of load and size of matrix the models' throughput and latency; and their memory.
pub(crate) fn tables(document: &Document) -> Vec<Table> {
    let mut tables: Vec<Table> = Scene::all(document)
        .flat_map(|scene| [throughput(document, scene), latency(document, scene)])
        .filter(|table| !table.rows.is_empty())
        .collect();
    tables.push(memory(document));
    tables
}

fn shown(value: Option<f64>) -> String {
    value.map(figure).unwrap_or_default()
}

/// The paper's point at `row`.
fn paper(model: &str, row: &Row) -> Option<&'static Served> {
    let connections = row.number("connections");
    let fits = |served: &&Served| {
        served.model == model && Some(f64::from(served.connections)) == connections
    };
    papers::SERVER.iter().find(fits)
}

fn throughput(document: &Document, scene: Scene) -> Table {
    let mut header = vec!["connections"];
    header.extend(MODELS);
    header.extend(["paper KCUC", "KTUC", "KTUT"]);
    let mut table = Table::new(format!("{}: requests/s", scene.title()), &header);
    let rows = scene.rows(document, "throughput");
    for row in rows.filter(|row| row.model == OURS) {
        let mut cells = vec![shown(row.number("connections"))];
        cells.extend(MODELS.map(|model| shown(beside(document, row, model))));
        let paper = |model| shown(paper(model, row).map(|served| served.throughput));
        cells.extend([OURS, "KTUC", THREADS].map(paper));
        table.push(cells);
    }
    table
}

fn latency(document: &Document, scene: Scene) -> Table {
    let mut header = vec!["connections", "model"];
    header.extend(SHOWN.map(|(_, column)| column));
    header.push("paper: mean");
    let mut table = Table::new(
        format!("{}: latency in ms, and answers", scene.title()),
        &header,
    );
    for row in scene.rows(document, SHOWN[0].0) {
        let other = |metric| {
            let mut others = scene.rows(document, metric);
            let other =
                others.find(|other| other.model == row.model && other.parameters == row.parameters);
            shown(other.map(|other| other.median))
        };
        let mut cells = vec![shown(row.number("connections")), row.model.clone()];
        cells.extend(SHOWN.map(|(metric, _)| other(metric)));
        cells.push(shown(paper(&row.model, row).map(|served| served.latency)));
        table.push(cells);
    }
    table
}

fn memory(document: &Document) -> Table {
    let [coroutines, threads] = papers::CONNECTIONS.map(figure);
    let futures = figure(papers::FUTURES.iter().sum());
    let none = String::new;
    let mut table = Table::new(
        "Memory",
        &[
            "what",
            "KCUC",
            "KTUC",
            "KCUT",
            "KTUT",
            "paper: coroutines",
            "paper: threads",
        ],
    );
    for (metric, paper) in [
        ("bytes-per-connection", [none(), none()]),
        ("max-connections", [coroutines, threads]),
        ("futures-per-connection", [futures, none()]),
    ] {
        let fits = |row: &&Row| row.metric == metric && row.model == OURS;
        for row in document.rows.iter().filter(fits) {
            let mut cells = vec![metric.to_string()];
            cells.extend(MODELS.map(|model| shown(beside(document, row, model))));
            cells.extend(paper.clone());
            table.push(cells);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::tests::{document, row};
    use super::*;

    #[test]
    fn numbers_stand_beside_each_other_and_the_papers() {
        let mut rows = Vec::new();
        for (model, value) in [(OURS, 60.0), ("KTUC", 66.0), (THREADS, 10.0)] {
            rows.push(row(model, "throughput", 64, 16, value));
        }
        for (metric, value) in [
            ("latency-mean", 4.0),
            ("latency-p50", 3.0),
            ("latency-p99", 9.0),
            ("jitter", 2.0),
            ("late-answers", 16.0),
            ("wrong-answers", 1.0),
            ("max-connections", 2000.0),
            ("futures-per-connection", 408.0),
        ] {
            rows.push(row(OURS, metric, 64, 16, value));
        }
        let tables = tables(&document(&rows));
        let [throughput, latency, memory] = &tables[..] else {
            panic!("{} tables", tables.len());
        };
        let all = [
            vec!["64.0", "60.0", "66.0", "", "10.0", "487", "517", "94.0"],
            vec![
                "64.0", OURS, "4.00", "3.00", "9.00", "2.00", "16.0", "1.00", "", "588",
            ],
        ];
        assert_eq!([&throughput.rows[0], &latency.rows[0]], [&all[0], &all[1]]);
        assert_eq!(memory.rows[0][5..], ["385", "186"]);
        assert_eq!(memory.rows[1][1..], ["408", "", "", "", "440", ""]);
    }
}
