//! Makes the root in which another RabbitMQ than the machine's own runs, once, and keeps it.

mod making;
mod mirror;

use std::{
    fs,
    process::{Command, Stdio},
};

use self::making::make;
use super::{debian, product};
use crate::{
    Error, Installed, Result,
    rabbitmq::{Generation, place_of},
};

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
            make(command, &place, DEBOOTSTRAP, &[suite, &mirror])
        }
        Err(_) if docker_answers() => {
            let image = format!("rabbitmq:{version}");
            eprintln!(
                "getting RabbitMQ {version} out of the Docker image {image}, to keep it in {}",
                place.display()
            );
            make(Command::new("env"), &place, DOCKER, &[&image])
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

fn docker_answers() -> bool {
    let mut docker = Command::new("docker");
    docker.arg("info").stdin(Stdio::null());
    docker.stdout(Stdio::null()).stderr(Stdio::null());
    docker.status().is_ok_and(|status| status.success())
}
