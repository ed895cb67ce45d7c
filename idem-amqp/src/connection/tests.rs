use super::*;

fn parse(url: &str) -> Result<Broker, String> {
    Broker::parse(url, &Arc::default())
}

#[test]
fn a_password_is_never_shown() {
    let broker = parse("amqp://me:secret@example.org:5672/shop").unwrap();
    assert_eq!(broker.to_string(), "example.org:5672 (vhost `shop`)");
    assert!(!format!("{broker:?}").contains("secret"));
}

#[test]
fn a_wrong_url_is_refused_without_repeating_it() {
    for url in [
        "",
        "http://me:secret@example.org",
        "me:secret@example.org",
        "amqp:me:secret@example.org",
        "amqp://me:secret@example.org:port/shop",
        "amqp://me:secret@/shop",
        "amqp://me:12/secret@example.org/shop",
        "amqp://me:12?secret@example.org/shop",
        "amqp://me:12#secret@example.org/shop",
        "amqp://me:se/cret@example.org/shop",
        "amqp://me:secret%ff@example.org/shop",
        "amqp://me:secret@example.org/shop?heartbeat=often",
    ] {
        let error = parse(url).map(drop).expect_err(url);
        assert!(
            !error.contains("secret") && !error.contains("cret@"),
            "{error}"
        );
    }
}

#[test]
fn heartbeats_are_on_unless_the_url_says_otherwise() {
    let heartbeat = |url: &str| parse(url).unwrap().uri.query.heartbeat;
    assert_eq!(heartbeat("amqp://h/%2f"), Some(10));
    assert_eq!(heartbeat("amqp://h/%2f?heartbeat=3"), Some(3));
}

#[test]
fn a_broker_has_ten_seconds_to_answer_unless_the_url_says_otherwise() {
    let connect_timeout = |url: &str| parse(url).unwrap().connect_timeout();
    assert_eq!(connect_timeout("amqp://h/%2f"), Duration::from_secs(10));
    let given = connect_timeout("amqp://h/%2f?connection_timeout=1500");
    assert_eq!(given, Duration::from_millis(1500));
}

/// A `/` behind the port is easily written, and names a vhost that nobody has.
#[test]
fn a_url_with_an_empty_vhost_says_how_the_default_one_is_written() {
    let error = parse("amqp://me:secret@example.org:5672/").map(drop);
    let error = error.unwrap_err();
    assert!(error.contains("`/%2f`"), "{error}");
    for url in ["amqp://example.org:5672", "amqp://example.org:5672/%2f"] {
        assert_eq!(parse(url).unwrap().uri.vhost, "/", "{url}");
    }
}
