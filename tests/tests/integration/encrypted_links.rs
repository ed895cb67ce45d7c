//! RabbitMQ through TLS, on a broker with a certificate of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use idem_amqp::{
    AmqpUrls, MemoryStore, Publication, Publisher, Worker, executor::ExecutionKind as Kind,
};
use idem_servers::{RabbitMq, Server as _, free_ports};
use idem_tests::{
    bed::{Bed, DeadLetter, dead},
    foreign_publisher::{Hostile, Readable, publish_hostile},
    ledger::Ledger,
    process::{Process, Settings},
    running::{Running, assert_balance},
    script::{Order, Script, charge},
    servers::off_thread,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// A broker that takes part in TLS, and who has signed its certificate.
struct Encrypting {
    broker: RabbitMq,
    port: u16,
    authority: PathBuf,
    authorities: Authority,
}

impl Encrypting {
    fn start() -> idem_servers::Result<Self> {
        Self::start_with("", |authority| authority.certificate_for("127.0.0.1"))
    }

    fn start_with(
        settings: &str,
        certificate: fn(&Authority) -> (String, String),
    ) -> idem_servers::Result<Self> {
        let broker = RabbitMq::start()?;
        let [port] = free_ports()?;
        let file = |name: &str| broker.folder().join(name);
        let [authority, server, key] = ["authority.crt", "server.crt", "server.key"].map(file);
        let authorities = Authority::new("idem tests");
        let (certificate, private) = certificate(&authorities);
        fs::write(&authority, authorities.pem()).unwrap();
        fs::write(&server, certificate).unwrap();
        fs::write(&key, private).unwrap();
        let configuration = fs::read_to_string(file("rabbitmq.conf")).unwrap();
        let encrypted = format!(
            "\nlisteners.ssl.1 = 127.0.0.1:{port}\n\
             ssl_options.cacertfile = {}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n{settings}",
            authority.display(),
            server.display(),
            key.display(),
        );
        fs::write(file("rabbitmq.conf"), configuration + &encrypted).unwrap();
        broker.restart()?;
        Ok(Self {
            broker,
            port,
            authority,
            authorities,
        })
    }

    /// The one that the tests of this module share.
    async fn shared() -> &'static Self {
        static SHARED: LazyLock<Encrypting> =
            LazyLock::new(|| Encrypting::start().unwrap_or_else(|error| panic!("{error}")));
        off_thread(|| Ok(&*SHARED)).await
    }

    async fn bed(&self) -> Bed {
        let bed = Bed::on(&self.broker);
        bed.declare(&bed.queue()).await;
        bed
    }

    fn url(&self, bed: &Bed, query: &str) -> String {
        bed.url_by(self.port, query).replace("amqp://", "amqps://")
    }
}

/// Whoever signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let names = &mut authority.distinguished_name;
        names.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(authority, key).unwrap())
    }

    /// A certificate for this host, and its key, in PEM.
    pub(crate) fn certificate_for(&self, host: &str) -> (String, String) {
        self.sign(&CertificateParams::new([host.to_owned()]).unwrap())
    }

    /// One that nobody accepts any more.
    pub(crate) fn expired_certificate_for(&self, host: &str) -> (String, String) {
        let mut certificate = CertificateParams::new([host.to_owned()]).unwrap();
        certificate.not_after = date_time_ymd(2020, 1, 1);
        self.sign(&certificate)
    }

    /// What others need, to believe its certificates.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, certificate: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let signed = certificate.signed_by(&key, &self.0).unwrap();
        (signed.pem(), key.serialize_pem())
    }
}

/// These messages are dead-lettered, and the orders among them charged once, in spite of a copy of each.
async fn dead_lettered_among_orders(query: &str, hostile: &[Hostile]) {
    let encrypting = Encrypting::shared().await;
    let bed = encrypting.bed().await;
    let ledger = Ledger::create().await;
    let settings = Settings::new(&encrypting.url(&bed, query), bed.name(), &ledger);
    let worker = Process::start_trusting(&encrypting.authority, LEDGER_WORKER, &settings);
    for (number, hostile) in hostile.iter().enumerate() {
        let order = format!("o-{number}");
        bed.order(&order).await;
        publish_hostile(bed.url(), bed.name(), *hostile, Readable::default(), b"{}").await;
        bed.order(&order).await;
    }
    let count = hostile.len();
    let kinds = ["duplicate", "executed", "undecodable"];
    for kind in kinds {
        worker.ended(kind, count).await;
    }
    let mut balance = worker.stop().await;
    balance.sort();
    // A copy that comes while its order is still being charged may go back, and come once more.
    balance.retain(|(kind, _)| kind != "conflict");
    assert_eq!(balance, kinds.map(|kind| (kind.into(), count as u64)));
    let letters = bed.drain(&dead(bed.name())).await;
    let reasons: Vec<_> = letters.iter().map(DeadLetter::reason).collect();
    assert_eq!(reasons, vec!["unreadable"; count]);
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.into_values().collect::<Vec<_>>(), vec![1; count]);
    bed.assert_nothing_stuck().await;
}

/// The URL begins with `amqps://`.
///
/// - does: encrypts all its connections; messages that cannot be read are dead-lettered there, too
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn orders_through_tls_are_handled_once_and_unreadable_messages_are_dead_lettered() {
    // Headers in one record of TLS, and headers in several.
    let hostile = [&Hostile::ALL[..], &[Hostile::Nested(26_000)]].concat();
    dead_lettered_among_orders("", &hostile).await;
}

/// Shares the promise of
/// `encrypted_links::orders_through_tls_are_handled_once_and_unreadable_messages_are_dead_lettered`.
#[tokio::test]
async fn headers_larger_than_a_frame_through_tls_dead_letter_their_message_alone() {
    dead_lettered_among_orders("?frame_max=8192", &[Hostile::Large(10_000)]).await;
}

/// The URL begins with `amqps://`, and no authority that the worker trusts has signed the broker's certificate.
///
/// - does: tries again, and says in the log what to do
#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused_with_what_to_do() {
    let encrypting = Encrypting::shared().await;
    let bed = encrypting.bed().await;
    let ledger = Ledger::create().await;
    let settings = Settings::new(&encrypting.url(&bed, ""), bed.name(), &ledger);
    for (trusted, told) in [
        (Authority::new("somebody else").pem(), "UnknownIssuer"),
        (Authority::new("idem tests").pem(), "BadSignature"),
        (String::new(), "native certificates"),
    ] {
        let file = ledger.file("trusted.crt");
        fs::write(&file, trusted).unwrap();
        refused(&file, &settings, &[told, "SSL_CERT_FILE"]).await;
    }
    bed.assert_nothing_stuck().await;
}

/// A worker that trusts this authority does not reach the broker, tries again, and says this in its log.
async fn refused(trusted: &Path, settings: &Settings, words: &[&str]) {
    let worker = Process::start_trusting(trusted, LEDGER_WORKER, settings);
    let refused = |line: &String| {
        line.contains("incident=unreachable") && words.iter().all(|words| line.contains(words))
    };
    let refused = |lines: &[String]| lines.iter().any(refused);
    worker.log.until("the log says what to do", refused).await;
    assert!(worker.stop().await.is_empty());
}

/// The URL begins with `amqps://`, and the broker's certificate is for another host, or has expired.
///
/// - does: tries again, and says in the log what is wrong with it
#[tokio::test]
async fn a_certificate_of_another_host_or_an_expired_one_is_refused_with_its_flaw() {
    let encrypting = Encrypting::shared().await;
    let bed = encrypting.bed().await;
    let ledger = Ledger::create().await;
    let elsewhere = encrypting.url(&bed, "").replace("127.0.0.1", "localhost");
    let settings = Settings::new(&elsewhere, bed.name(), &ledger);
    refused(
        &encrypting.authority,
        &settings,
        &["not valid for name", "localhost"],
    )
    .await;
    bed.assert_nothing_stuck().await;

    let expired = |authority: &Authority| authority.expired_certificate_for("127.0.0.1");
    let encrypting = off_thread(move || Encrypting::start_with("", expired)).await;
    let bed = encrypting.bed().await;
    let settings = Settings::new(&encrypting.url(&bed, ""), bed.name(), &ledger);
    refused(&encrypting.authority, &settings, &["expired"]).await;
    bed.assert_nothing_stuck().await;
}

/// A broker asks for a certificate.
///
/// - does: shows the one that `AmqpUrls::client_certificate` was given; the broker refuses others
/// - atomic: once
/// - leased: once
#[tokio::test]
async fn a_broker_that_asks_for_a_certificate_lets_in_who_shows_one_of_its_authority() {
    let asks = "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n";
    let encrypting = off_thread(|| {
        Encrypting::start_with(asks, |authority| authority.certificate_for("127.0.0.1"))
    })
    .await;
    let bed = encrypting.bed().await;
    let authority = encrypting.authorities.pem();
    let urls = AmqpUrls::from(encrypting.url(&bed, "")).authority(&authority);
    assert!(
        Publisher::connect(urls.clone()).await.is_err(),
        "without one"
    );

    let (certificate, key) = Authority::new("somebody else").certificate_for("worker");
    let stranger = urls.clone().client_certificate(certificate, key);
    assert!(Publisher::connect(stranger).await.is_err(), "a stranger's");

    let (certificate, key) = encrypting.authorities.certificate_for("worker");
    let own = urls.client_certificate(certificate, key);
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = Running::start(worker.consume::<charge>(bed.queue()), own.clone());
    let publisher = Publisher::connect(own).await.unwrap();
    let order = Publication::json(bed.name(), &Order::new("a"));
    publisher.publish(&order).await.unwrap();
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}
