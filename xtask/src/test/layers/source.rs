//! The imports between the modules of a crate, read from its sources.

use anyhow::{Context as _, Result};
use proc_macro2::{Span, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, Meta, UseTree};

/// The modules of a crate's root, and what they import from each other.
#[derive(Debug, Default)]
pub(super) struct Imports {
    pub(super) modules: BTreeSet<String>,
    pub(super) list: Vec<Import>,
}

/// An import of one module by another one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) from: String,
    /// A module, or something that the root itself defines.
    pub(super) to: String,
    /// File and line, from the crate's `src`.
    pub(super) place: String,
}

/// Reads the module tree below `src/lib.rs` or `src/main.rs`.
///
/// # Errors
/// If a file is missing or cannot be parsed.
pub(super) fn imports(src: &Path) -> Result<Imports> {
    let root = ["lib.rs", "main.rs"].map(|name| src.join(name));
    let root = root.iter().find(|path| path.exists());
    let root = root.with_context(|| format!("{} has no lib.rs and no main.rs", src.display()))?;
    let mut reader = Reader {
        src: src.to_path_buf(),
        ..Reader::default()
    };
    reader.read(root, &[], src)?;
    Ok(reader.resolve())
}

/// A path that begins at the crate's root, with its first name.
#[derive(Debug)]
struct Mention {
    from: String,
    name: String,
    place: String,
}

#[derive(Default)]
struct Reader {
    src: PathBuf,
    modules: BTreeSet<String>,
    /// The names that the root imports from its modules.
    ///
    /// Also the macros, which lie at the root wherever they are written.
    origins: BTreeMap<String, String>,
    mentions: Vec<Mention>,
}

impl Reader {
    /// Reads one file.
    ///
    /// The files of its own modules lie in `folder`.
    fn read(&mut self, file: &Path, module: &[String], folder: &Path) -> Result<()> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let syntax =
            syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
        self.items(&syntax.items, file, module, folder)
    }

    fn items(
        &mut self,
        items: &[Item],
        file: &Path,
        module: &[String],
        folder: &Path,
    ) -> Result<()> {
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            match item {
                Item::Mod(inner) => self.module(inner, file, module, folder)?,
                Item::Use(import) if module.is_empty() => self.root_use(&import.tree, None),
                _ => {
                    if let (Item::Macro(rules), Some(top)) = (item, module.first())
                        && let Some(name) = &rules.ident
                    {
                        self.origins.insert(name.to_string(), top.clone());
                    }
                    let place = file.strip_prefix(&self.src).unwrap_or(file);
                    let mut finder = Finder {
                        module: module.to_vec(),
                        file: place.display().to_string(),
                        mentions: &mut self.mentions,
                    };
                    finder.visit_item(item);
                }
            }
        }
        Ok(())
    }

    fn module(
        &mut self,
        inner: &ItemMod,
        file: &Path,
        outer: &[String],
        folder: &Path,
    ) -> Result<()> {
        let name = inner.ident.to_string();
        if outer.is_empty() {
            self.modules.insert(name.clone());
        }
        let module = [outer, std::slice::from_ref(&name)].concat();
        let own = folder.join(&name);
        match &inner.content {
            Some((_, items)) => self.items(items, file, &module, &own),
            None => {
                let files = [folder.join(format!("{name}.rs")), own.join("mod.rs")];
                let found = files.iter().find(|path| path.exists());
                let found = found.with_context(|| {
                    format!("the file of module {name} is not in {}", folder.display())
                })?;
                self.read(found, &module, &own)
            }
        }
    }

    /// Notes from which module the root imports each name.
    fn root_use(&mut self, tree: &UseTree, top: Option<&str>) {
        match tree {
            UseTree::Path(path) => {
                let name = path.ident.to_string();
                match (top, name.as_str()) {
                    (None, "crate" | "self") => self.root_use(&path.tree, None),
                    (None, _) => self.root_use(&path.tree, Some(&name)),
                    (Some(top), _) => self.root_use(&path.tree, Some(top)),
                }
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.root_use(tree, top);
                }
            }
            UseTree::Name(name) => self.origin(&name.ident.to_string(), top),
            UseTree::Rename(rename) => self.origin(&rename.rename.to_string(), top),
            UseTree::Glob(_) => {}
        }
    }

    fn origin(&mut self, name: &str, top: Option<&str>) {
        if let Some(top) = top {
            self.origins.insert(name.to_string(), top.to_string());
        }
    }

    /// Finds the module that each mentioned name belongs to.
    fn resolve(self) -> Imports {
        let mut list = Vec::new();
        for mention in self.mentions {
            let name = mention.name;
            let to = if self.modules.contains(&name) {
                name
            } else {
                self.origins.get(&name).cloned().unwrap_or(name)
            };
            // The root may export what other crates define.
            let foreign =
                self.origins.values().any(|top| *top == to) && !self.modules.contains(&to);
            if to != mention.from && !foreign {
                list.push(Import {
                    from: mention.from,
                    to,
                    place: mention.place,
                });
            }
        }
        Imports {
            modules: self.modules,
            list,
        }
    }
}

/// Finds paths that begin at the root, in one item.
struct Finder<'r> {
    /// The module in which the item lies.
    module: Vec<String>,
    file: String,
    mentions: &'r mut Vec<Mention>,
}

impl Finder<'_> {
    /// Notes a path if it leads to the root and down from there.
    fn path(&mut self, names: &[String], span: Span) {
        let mut rest = names;
        let mut depth = match rest.first().map(String::as_str) {
            Some("crate") => 0,
            Some("super" | "self") => self.module.len(),
            _ => return,
        };
        loop {
            match rest.first().map(String::as_str) {
                Some("crate" | "self") => {}
                Some("super") => depth = depth.saturating_sub(1),
                _ => break,
            }
            rest = &rest[1..];
        }
        if let (0, Some(name), Some(top)) = (depth, rest.first(), self.module.first()) {
            self.mentions.push(Mention {
                from: top.clone(),
                name: name.clone(),
                place: format!("{}:{}", self.file, span.start().line),
            });
        }
    }

    fn tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&path.tree, &with(path.ident.to_string())),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(tree, before);
                }
            }
            UseTree::Name(name) => self.path(&with(name.ident.to_string()), name.ident.span()),
            UseTree::Rename(name) => self.path(&with(name.ident.to_string()), name.ident.span()),
            UseTree::Glob(glob) => self.path(before, glob.star_token.spans[0]),
        }
    }

    /// Searches the tokens of a macro's arguments, because they are no syntax tree.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut names: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut start = Span::call_site();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if names.is_empty() || colons == 2 => {
                    if names.is_empty() {
                        start = ident.span();
                    }
                    names.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !names.is_empty() => {
                    colons += 1;
                }
                other => {
                    self.path(&names, start);
                    names.clear();
                    colons = 0;
                    match other {
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        TokenTree::Ident(ident) => {
                            start = ident.span();
                            names.push(ident.to_string());
                        }
                        _ => {}
                    }
                }
            }
        }
        self.path(&names, start);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if let Some(first) = path.segments.first() {
            self.path(&names, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {
        // Links in the documentation are no imports.
    }
}

/// Tests whether a `cfg` restricts the item to tests.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.replace(' ', "").starts_with("all(test,")
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the imports of a crate of these files, each as `from → to, place`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let imports = imports(folder.path()).unwrap();
        let arrow = |each: &Import| format!("{} → {}, {}", each.from, each.to, each.place);
        imports.list.iter().map(arrow).collect()
    }

    const ROOT: &str = "mod a;\nmod b;\npub use b::Thing;\npub use other::Foreign;\nstruct Own;\n";

    #[test]
    fn imports_and_paths_are_found() {
        let a = "use crate::b::{X, y::Z};\nfn f() -> crate::Thing { super::b::g() }\n";
        let arrows = found(&[("lib.rs", ROOT), ("a.rs", a), ("b.rs", "")]);
        assert_eq!(
            arrows,
            [
                "a → b, a.rs:1",
                "a → b, a.rs:1",
                "a → b, a.rs:2",
                "a → b, a.rs:2"
            ]
        );
    }

    #[test]
    fn what_the_root_defines_lies_above() {
        let arrows = found(&[("main.rs", ROOT), ("a.rs", "use crate::Own;"), ("b.rs", "")]);
        assert_eq!(arrows, ["a → Own, a.rs:1"]);
        let foreign = found(&[
            ("lib.rs", ROOT),
            ("a.rs", "use crate::Foreign;"),
            ("b.rs", ""),
        ]);
        assert!(foreign.is_empty());
    }

    #[test]
    fn a_macro_is_searched_and_belongs_to_its_module() {
        let a = "fn f() { println!(\"{}\", (crate::b::g(), 1)); crate::shout!() }";
        let b = "macro_rules! shout { () => {} }";
        let arrows = found(&[("lib.rs", ROOT), ("a.rs", a), ("b.rs", b)]);
        assert_eq!(arrows, ["a → b, a.rs:1", "a → b, a.rs:1"]);
    }

    #[test]
    fn modules_within_a_module_are_one() {
        let arrows = found(&[
            ("lib.rs", ROOT),
            ("a.rs", "mod inner;\nuse self::inner::X;\n"),
            (
                "a/inner.rs",
                "use super::f;\nuse super::super::b::X;\nuse crate::a::Y;\n",
            ),
            ("b/mod.rs", "mod c { use super::super::a; }"),
        ]);
        assert_eq!(arrows, ["a → b, a/inner.rs:2", "b → a, b/mod.rs:1"]);
    }

    #[test]
    fn tests_may_import_anything() {
        let a = "#[cfg(test)]\nmod tests { use crate::b::X; }\n#[cfg(all(test, not(loom)))]\nmod more;\n";
        assert!(found(&[("lib.rs", ROOT), ("a.rs", a), ("b.rs", "")]).is_empty());
    }
}
