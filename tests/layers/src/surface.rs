//! What is public in a crate, item by item, as `api/<crate>.txt` has it: so a change of it is seen in a diff.
//!
//! With the variable `IDEM_WRITE_API` the files are written instead of compared.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The crates that have such a file.
const CRATES: [&str; 5] = [
    "idem-core",
    "idem-amqp",
    "idem-http",
    "idem-kafka",
    "idem-testing",
];

/// One line for each public item but fields of variants, impls of `auto` traits and those of `derive` left out. What
/// has two paths is written once; functions in the impl of a trait are not written: they are the trait's. Nor is an
/// impl of a type's own, whose functions name the type, unless it has bounds.
fn public_items(documentation: &Path, package: &str) -> String {
    let json = documentation
        .join(package.replace('-', "_"))
        .with_extension("json");
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    let api = api.unwrap_or_else(|error| panic!("cannot read {}: {error}", json.display()));
    let lines: Vec<_> = api.items().map(ToString::to_string).collect();
    shortened(&lines).join("\n") + "\n"
}

fn shortened(items: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut written = BTreeSet::new();
    // The type whose impl of a trait is being written, and the variant that the last line is about.
    let (mut implementor, mut variant) = (None, None);
    for item in items {
        if item.starts_with("impl") {
            let of = item.split_once(" for ").map(|(_, of)| of.split(" where "));
            implementor = of.and_then(|mut of| Some(format!("fn {}::", of.next()?)));
        }
        let of_trait = implementor.as_ref().is_some_and(|of| item.contains(of));
        let says_nothing = item.starts_with("impl ") && implementor.is_none();
        if of_trait || says_nothing || !written.insert(item) {
            continue;
        }
        let field = variant.and_then(|variant| item.strip_prefix(variant)?.strip_prefix("::"));
        if let (Some(field), Some(line)) = (field, lines.last_mut()) {
            let open = line.strip_suffix(" }").map(|fields| format!("{fields},"));
            let open = open.unwrap_or_else(|| format!("{line} {{"));
            *line = format!("{open} {field} }}");
        } else {
            let name = item.trim_start_matches("#[non_exhaustive] ");
            let is_variant = name.split(' ').count() == 2 && name.starts_with("pub ");
            variant = is_variant.then_some(name);
            lines.push(item.clone());
        }
    }
    lines
}

/// The folder with the documentation of all crates as JSON, which rustdoc of a stable toolchain writes only if it is told
/// to.
fn rustdoc(root: &Path) -> PathBuf {
    // This program stands in `<target>/<profile>/deps`. The documentation gets a folder of its own: in the usual one it
    // would wait for whatever else is being built there.
    let program = env::current_exe().expect("it runs");
    let target = program.ancestors().nth(3).expect("cargo has put it there");
    let target = target.join("public-api");
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["doc", "--locked", "--no-deps", "--all-features"])
        .args(CRATES.iter().flat_map(|package| ["--package", package]))
        .arg("--target-dir")
        .arg(&target)
        .env(
            "RUSTDOC",
            concat!(env!("CARGO_MANIFEST_DIR"), "/rustdoc.sh"),
        )
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json")
        .output()
        .expect("cargo can be started: it runs this test");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo doc: {told}");
    target.join("doc")
}

#[test]
fn the_public_api_is_the_one_that_is_written_down() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let documentation = rustdoc(root);
    let mut differ = Vec::new();
    for package in CRATES {
        let file = root.join("api").join(package).with_extension("txt");
        let items = public_items(&documentation, package);
        if env::var_os("IDEM_WRITE_API").is_some() {
            fs::write(&file, items).unwrap();
            continue;
        }
        let told = fs::read_to_string(&file).unwrap_or_default();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (told, items) = (lines(&told), lines(&items));
        let gone = told.iter().filter(|line| !items.contains(line));
        differ.extend(gone.map(|line| format!("- {line}")));
        let new = items.iter().filter(|line| !told.contains(line));
        differ.extend(new.map(|line| format!("+ {line}")));
    }
    assert!(
        differ.is_empty(),
        "the public API has changed; if that is meant, run \
         `IDEM_WRITE_API=1 cargo test -p idem-layers`, and look at the diff:\n{}\n",
        differ.join("\n")
    );
}

#[test]
fn what_is_said_elsewhere_has_no_line() {
    let items = [
        "pub enum a::Claim",
        "pub a::Claim::Held",
        "pub a::Claim::Held::by: u64",
        "pub a::Claim::Held::until: u64",
        "pub a::Claim::Lost",
        "impl a::Claim",
        "pub fn a::Claim::is_held(&self) -> bool",
        "impl core::fmt::Display for a::Claim",
        "pub fn a::Claim::fmt(&self, &mut core::fmt::Formatter<'_>) -> core::fmt::Result",
        "pub fn a::claim()",
        "pub enum a::store::Claim",
        "pub fn a::Claim::is_held(&self) -> bool",
    ];
    let lines = [
        "pub enum a::Claim",
        "pub a::Claim::Held { by: u64, until: u64 }",
        "pub a::Claim::Lost",
        "pub fn a::Claim::is_held(&self) -> bool",
        "impl core::fmt::Display for a::Claim",
        "pub fn a::claim()",
        "pub enum a::store::Claim",
    ];
    assert_eq!(shortened(&items.map(str::to_owned)), lines);
}
