//! What is public in a crate, item by item, as `api/<crate>.txt` has it: so a change of it is seen in a diff.
//!
//! With the variable `IDEM_WRITE_API` the files are written instead of compared.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The crates that have such a file.
const CRATES: [&str; 4] = ["idem-core", "idem-amqp", "idem-http", "idem-testing"];

/// One line for each public item, impls of `auto` traits and those of `derive` left out.
fn public_items(root: &Path, package: &str) -> String {
    let json = rustdoc(root, package);
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    let api = api.unwrap_or_else(|error| panic!("cannot read {}: {error}", json.display()));
    let lines: Vec<_> = api.items().map(ToString::to_string).collect();
    lines.join("\n") + "\n"
}

/// The documentation as JSON, which rustdoc of a stable toolchain writes only if it is told to.
fn rustdoc(root: &Path, package: &str) -> PathBuf {
    // This program stands in `<target>/<profile>/deps`. The documentation gets a folder of its own: in the usual one it
    // would wait for whatever else is being built there.
    let program = env::current_exe().expect("it runs");
    let target = program.ancestors().nth(3).expect("cargo has put it there");
    let target = target.join("public-api");
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args([
            "rustdoc",
            "--locked",
            "--all-features",
            "--package",
            package,
        ])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .env(
            "RUSTDOC",
            concat!(env!("CARGO_MANIFEST_DIR"), "/rustdoc.sh"),
        )
        .output()
        .expect("cargo can be started: it runs this test");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cargo rustdoc of {package}: {told}"
    );
    target
        .join("doc")
        .join(package.replace('-', "_"))
        .with_extension("json")
}

#[test]
fn the_public_api_is_the_one_that_is_written_down() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut differ = Vec::new();
    for package in CRATES {
        let file = root.join("api").join(package).with_extension("txt");
        let items = public_items(root, package);
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
