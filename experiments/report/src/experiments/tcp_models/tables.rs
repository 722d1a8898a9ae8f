//! The numbers of experiment `tcp-models`, and beside them the COPS data where the load is the
//! same.

use super::{MODELS, OURS, Scene, THREADS, beside};
use crate::document::Document;
use crate::experiments::answers::SHOWN;
use crate::papers::{self, Served};
use crate::row::Row;
use crate::table::{Table, figure};

/// Returns the models' throughput and latency for each kind of load and size of matrix, and their
/// memory.
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

/// Returns the point of the COPS data with the connections of `row`, if the load is the same.
fn published(model: &str, scene: Scene, row: &Row) -> Option<&'static Served> {
    if !scene.is_published() {
        return None;
    }
    let connections = row.number("connections");
    let fits = |served: &&Served| {
        served.model == model && Some(f64::from(served.connections)) == connections
    };
    papers::SERVER.iter().find(fits)
}

fn throughput(document: &Document, scene: Scene) -> Table {
    let mut header = vec!["connections"];
    header.extend(MODELS);
    let published_models: &[&str] = if scene.is_published() {
        header.extend(["COPS data: KCUC", "KTUC", "KTUT"]);
        &[OURS, "KTUC", THREADS]
    } else {
        &[]
    };
    let mut table = Table::new(format!("{}: requests/s", scene.title()), &header);
    let rows = scene.rows(document, "throughput");
    for row in rows.filter(|row| row.model == OURS) {
        let mut cells = vec![shown(row.number("connections"))];
        cells.extend(MODELS.map(|model| shown(beside(document, row, model))));
        let published =
            |model: &&str| shown(published(model, scene, row).map(|served| served.throughput));
        cells.extend(published_models.iter().map(published));
        table.push(cells);
    }
    table
}

fn latency(document: &Document, scene: Scene) -> Table {
    let mut header = vec!["connections", "model"];
    header.extend(SHOWN.map(|(_, column)| column));
    if scene.is_published() {
        header.push("COPS data: mean");
    }
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
        if scene.is_published() {
            cells.push(shown(
                published(&row.model, scene, row).map(|served| served.latency),
            ));
        }
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
            "COPS draft: coroutines",
            "COPS draft: threads",
        ],
    );
    for (metric, published) in [
        ("bytes-per-connection", [none(), none()]),
        ("max-connections", [coroutines, threads]),
        ("futures-per-connection", [futures, none()]),
    ] {
        let fits = |row: &&Row| row.metric == metric && row.model == OURS;
        for row in document.rows.iter().filter(fits) {
            let mut cells = vec![metric.to_string()];
            cells.extend(MODELS.map(|model| shown(beside(document, row, model))));
            cells.extend(published.clone());
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
    fn models_stand_beside_each_other() {
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
            vec!["64.0", "60.0", "66.0", "", "10.0"],
            vec![
                "64.0", OURS, "4.00", "3.00", "9.00", "2.00", "16.0", "1.00", "",
            ],
        ];
        assert_eq!([&throughput.rows[0], &latency.rows[0]], [&all[0], &all[1]]);
        assert_eq!(memory.rows[0][5..], ["385", "186"]);
        assert_eq!(memory.rows[1][1..], ["408", "", "", "", "440", ""]);
    }

    #[test]
    fn published_figures_stand_beside_the_same_load_only() {
        let with = |name: &str, value: u32| {
            let metrics = ["throughput", "latency-mean"].map(|metric| {
                let mut row = row(OURS, metric, 64, 1, 60.0);
                (row["matrix"], row["period"], row["harts"]) = (15.into(), 100.into(), 4.into());
                row[name] = value.into();
                row
            });
            tables(&document(&metrics))
        };
        let same = with("matrix", 15);
        assert_eq!(same[0].rows[0][5..], ["487", "517", "94.0"]);
        assert_eq!(same[1].rows[0].last().unwrap(), "588");
        for (name, value) in [("matrix", 20), ("period", 0), ("harts", 1)] {
            let other = with(name, value);
            assert_eq!(other[0].rows[0].len(), 5, "{name}");
            let columns = other[1].rows[0].len();
            assert_eq!(columns, same[1].rows[0].len() - 1, "{name}");
        }
    }
}
