//! The declared order of a crate's modules, and what contradicts it.

use super::source::{Import, Imports};
use anyhow::{Context as _, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// The layers of a crate, the lowest first.
#[derive(Debug)]
pub(super) struct Order {
    /// The position of each module's layer, and its name.
    layers: BTreeMap<String, (usize, String)>,
}

impl Order {
    /// Reads the lines of `layers.txt`.
    ///
    /// # Errors
    /// If a line is no layer, or a module is in two of them.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut layers = BTreeMap::new();
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        for (position, line) in lines.enumerate() {
            let (layer, modules) = line
                .split_once(':')
                .with_context(|| format!("`{line}` is no layer: `name: module module`"))?;
            for module in modules.split_whitespace() {
                let twice = layers.insert(module.to_string(), (position, layer.to_string()));
                ensure!(twice.is_none(), "`{module}` stands in two layers");
            }
        }
        Ok(Self { layers })
    }

    /// Names each import that points upwards, each cycle within a layer, and each module without a
    /// layer.
    pub(super) fn violations(&self, imports: &Imports) -> Vec<String> {
        let mut violations = Vec::new();
        for module in &imports.modules {
            if !self.layers.contains_key(module) {
                violations.push(format!("{module}: this module stands in no layer"));
            }
        }
        for module in self.layers.keys() {
            if !imports.modules.contains(module) {
                violations.push(format!(
                    "{module}: a layer names this module, which is not there"
                ));
            }
        }
        let mut beside: BTreeMap<&str, Vec<&Import>> = BTreeMap::new();
        for import in &imports.list {
            let from = self.layers.get(&import.from);
            // The crate's root lies above all modules.
            let Some((own, layer)) = from else { continue };
            match self.layers.get(&import.to) {
                Some((other, _)) if other < own => {}
                Some((other, _)) if other == own => {
                    beside.entry(&import.from).or_default().push(import);
                }
                Some((_, above)) => violations.push(format!(
                    "{}: `{}` of the layer `{layer}` imports `{}` of the layer `{above}` above it",
                    import.place, import.from, import.to
                )),
                None => violations.push(format!(
                    "{}: `{}` imports `{}` of the crate's root, which lies above all layers",
                    import.place, import.from, import.to
                )),
            }
        }
        violations.extend(cycle(&beside));
        violations
    }
}

/// Returns the first import that closes a cycle among modules of one layer.
fn cycle(imports: &BTreeMap<&str, Vec<&Import>>) -> Option<String> {
    fn visit<'a>(
        module: &'a str,
        imports: &BTreeMap<&'a str, Vec<&'a Import>>,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Option<String> {
        if !done.insert(module) {
            return None;
        }
        path.push(module);
        for import in imports.get(module).into_iter().flatten() {
            let to = import.to.as_str();
            if let Some(start) = path.iter().position(|each| *each == to) {
                let modules = path[start..].join(" → ");
                return Some(format!(
                    "{}: `{module}` closes a cycle within a layer: {modules} → {to}",
                    import.place
                ));
            }
            if let Some(found) = visit(to, imports, path, done) {
                return Some(found);
            }
        }
        path.pop();
        None
    }
    let mut done = BTreeSet::new();
    let mut modules = imports.keys();
    modules.find_map(|module| visit(module, imports, &mut Vec::new(), &mut done))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(modules: &[&str], arrows: &[(&str, &str)]) -> Imports {
        Imports {
            modules: modules.iter().map(|name| name.to_string()).collect(),
            list: arrows
                .iter()
                .map(|(from, to)| Import {
                    from: from.to_string(),
                    to: to.to_string(),
                    place: format!("{from}.rs:1"),
                })
                .collect(),
        }
    }

    fn violations(order: &str, arrows: &[(&str, &str)]) -> Vec<String> {
        let order = Order::parse(order).unwrap();
        order.violations(&imports(&["data", "lock", "thread"], arrows))
    }

    const ORDER: &str = "# the lowest first\nbase: data lock\n\nabove: thread\n";

    #[test]
    fn imports_from_below_and_beside_are_allowed() {
        let arrows = [("thread", "data"), ("thread", "lock"), ("lock", "data")];
        assert!(violations(ORDER, &arrows).is_empty());
    }

    #[test]
    fn an_import_from_above_is_named_with_its_line() {
        let found = violations(ORDER, &[("lock", "thread")]);
        assert_eq!(
            found,
            [
                "lock.rs:1: `lock` of the layer `base` imports `thread` of the layer `above` above it"
            ]
        );
        assert!(violations(ORDER, &[("data", "Root")])[0].contains("crate's root"));
    }

    #[test]
    fn a_cycle_within_a_layer_is_named() {
        let found = violations(ORDER, &[("lock", "data"), ("data", "lock")]);
        assert_eq!(
            found,
            ["lock.rs:1: `lock` closes a cycle within a layer: data → lock → data"]
        );
    }

    #[test]
    fn each_module_stands_in_one_layer() {
        assert!(Order::parse("a: data\nb: data").is_err());
        assert!(Order::parse("data").is_err());
        assert_eq!(
            violations("base: data lock", &[]),
            ["thread: this module stands in no layer"]
        );
        assert_eq!(violations("base: data lock thread gone", &[]).len(), 1);
    }
}
