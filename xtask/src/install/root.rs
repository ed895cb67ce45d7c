//! Makes the root in which another RabbitMQ than the machine's own runs, once, and keeps it.

mod mirror;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::{debian, product};
use crate::{
    Error, Result,
    services::{
        Installed,
        rabbitmq::{Generation, place_of},
    },
};

const MAKE: &str = include_str!("root/make.sh");
const DEBOOTSTRAP: &str = include_str!("root/debootstrap.sh");
const DOCKER: &str = include_str!("root/docker.sh");

const TOOLS: [product::Product; 2] = [
    product::Product {
        name: "debootstrap",
        package: "debootstrap",
        find: || Installed::find("debootstrap", ["/usr/sbin".into()], &["debootstrap"]),
    },
    product::Product {
        name: "the keys of Debian",
        package: "debian-archive-keyring",
        find: || {
            let file = "debian-archive-keyring.gpg";
            Installed::find(
                "the keys of Debian",
                ["/usr/share/keyrings".into()],
                &[file],
            )
        },
    },
];

/// Makes sure of the root of a generation: by debootstrap for root on Debian and Ubuntu, out of a
/// Docker image elsewhere.
pub(super) fn ensure(generation: Generation) -> Result<()> {
    let place = place_of(generation)?;
    if place.exists() {
        return Ok(());
    }
    let cache = place.parent().expect("it has a name in a folder");
    fs::create_dir_all(cache).map_err(Error::io(format!("create {}", cache.display())))?;
    let version = generation.version();
    match debian::as_root() {
        Ok(command) => {
            product::ensure(&TOOLS)?;
            let (suite, mirror) = (suite(generation), mirror::of_this_machine());
            eprintln!(
                "getting RabbitMQ {version} out of Debian {suite} ({mirror}), to keep it in {}",
                place.display()
            );
            run(make(command, &place, DEBOOTSTRAP, &[suite, &mirror]))
        }
        Err(_) if docker_answers() => {
            let image = format!("rabbitmq:{version}");
            eprintln!(
                "getting RabbitMQ {version} out of the Docker image {image}, to keep it in {}",
                place.display()
            );
            run(make(Command::new("env"), &place, DOCKER, &[&image]))
        }
        Err(reason) => Err(Error::Missing(format!(
            "RabbitMQ {version} is not here; and {}. Either be root on Debian or Ubuntu, where it is got out of \
             Debian's archive, or have a Docker engine that answers, to get it out of an image",
            reason.with_causes()
        ))),
    }
}

/// The release of Debian with that RabbitMQ.
fn suite(generation: Generation) -> &'static str {
    match generation {
        Generation::V3_10 => "bookworm",
        Generation::V4_0 => "trixie",
        Generation::V4_3 => "testing",
    }
}

fn make(mut command: Command, place: &Path, script: &str, arguments: &[&str]) -> Command {
    command.args(["sh", "-c", MAKE, "make"]).arg(place);
    command.arg(script).args(arguments);
    command
}

fn run(mut command: Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        // What is printed on standard output belongs to the task.
        .stdout(std::io::stderr())
        .status()
        .map_err(Error::io("run `sh`"))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: "getting another RabbitMQ".to_owned(),
        status: status.to_string(),
        output: "; what it said is above".to_owned(),
    })
}

fn docker_answers() -> bool {
    let mut docker = Command::new("docker");
    docker.arg("info").stdin(Stdio::null());
    docker.stdout(Stdio::null()).stderr(Stdio::null());
    docker.status().is_ok_and(|status| status.success())
}
