//! The URLs of a broker's nodes, as a user gives them.

use std::fmt;

use super::tls::{ClientCertificate, TlsSettings};

/// Where RabbitMQ is: the URL of a broker, or one for each node of a cluster.
///
/// ```
/// use idem_amqp::AmqpUrls;
///
/// AmqpUrls::from("amqp://127.0.0.1:5672/%2f");
/// AmqpUrls::from("amqp://me:secret@one/shop,amqp://me:secret@two/shop");
/// AmqpUrls::from(["amqp://me:secret@one/shop", "amqp://me:secret@two/shop"]);
/// ```
///
/// A comma separates two URLs where `amqp://` or `amqps://` follows it; elsewhere it is a part of
/// the URL, of a password for example. Of a URL's parameters, `heartbeat` (in seconds, 10 unless
/// given) and `connection_timeout` (in milliseconds, 10,000 unless given) are heeded for each node.
///
/// With several, the first to be tried is chosen at random, so that many workers spread over the
/// nodes; the others follow in turn. The next one is tried at once; when none lets the worker in,
/// all are tried again after a while, for ever.
///
/// Its `Debug` form tells how many there are, and no more: URLs hold passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct AmqpUrls {
    urls: Vec<String>,
    tls: TlsSettings,
}

impl AmqpUrls {
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.urls.iter().map(String::as_str)
    }

    pub(super) fn tls(&self) -> &TlsSettings {
        &self.tls
    }

    /// Trusts this authority, too, beside those of the system: its certificate, or several, in PEM. All URLs must be
    /// `amqps://` for that (feature `rustls`).
    #[must_use]
    pub fn authority(mut self, certificates: impl Into<String>) -> Self {
        self.tls.authority = Some(certificates.into());
        self
    }

    /// Shows brokers that ask for it this certificate, with those that it was signed with behind it, and has this key
    /// for it; both in PEM, the key as PKCS #8. All URLs must be `amqps://` for that (feature `rustls`).
    ///
    /// With `?auth_mechanism=external` in the URL, and RabbitMQ's plugin `rabbitmq_auth_mechanism_ssl`, the certificate
    /// also says who the user is.
    ///
    /// ```no_run
    /// # fn read() -> std::io::Result<idem_amqp::AmqpUrls> {
    /// use std::fs;
    /// use idem_amqp::AmqpUrls;
    ///
    /// let urls = AmqpUrls::from("amqps://broker.internal/shop?auth_mechanism=external")
    ///     .authority(fs::read_to_string("/run/secrets/authority.pem")?)
    ///     .client_certificate(fs::read("/run/secrets/worker.pem")?, fs::read("/run/secrets/worker.key")?);
    /// # Ok(urls) }
    /// ```
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.identity = Some(ClientCertificate {
            certificate: certificate.into(),
            key: key.into(),
        });
        self
    }

    fn of_all<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut urls = Vec::new();
        for text in texts {
            urls.extend(separate(text.as_ref()).into_iter().map(str::to_owned));
        }
        Self {
            urls,
            tls: TlsSettings::default(),
        }
    }
}

impl fmt::Debug for AmqpUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AmqpUrls({})", self.urls.len())
    }
}

impl From<&str> for AmqpUrls {
    fn from(urls: &str) -> Self {
        Self::of_all([urls])
    }
}

impl From<String> for AmqpUrls {
    fn from(urls: String) -> Self {
        Self::of_all([urls])
    }
}

impl From<&String> for AmqpUrls {
    fn from(urls: &String) -> Self {
        Self::of_all([urls])
    }
}

impl<T: AsRef<str>, const N: usize> From<[T; N]> for AmqpUrls {
    fn from(urls: [T; N]) -> Self {
        Self::of_all(urls)
    }
}

impl<T: AsRef<str>, const N: usize> From<&[T; N]> for AmqpUrls {
    fn from(urls: &[T; N]) -> Self {
        Self::of_all(urls)
    }
}

impl<T: AsRef<str>> From<&[T]> for AmqpUrls {
    fn from(urls: &[T]) -> Self {
        Self::of_all(urls)
    }
}

impl<T: AsRef<str>> From<Vec<T>> for AmqpUrls {
    fn from(urls: Vec<T>) -> Self {
        Self::of_all(urls)
    }
}

impl<T: AsRef<str>> From<&Vec<T>> for AmqpUrls {
    fn from(urls: &Vec<T>) -> Self {
        Self::of_all(urls)
    }
}

/// The URLs in a text, at least one, without the white space round them.
fn separate(text: &str) -> Vec<&str> {
    let mut urls = Vec::new();
    let mut rest = text;
    while let Some(comma) = separator(rest) {
        urls.push(rest[..comma].trim());
        rest = &rest[comma + 1..];
    }
    urls.push(rest.trim());
    urls
}

/// The first comma that another URL follows.
fn separator(text: &str) -> Option<usize> {
    let mut commas = text.match_indices(',').map(|(at, _)| at);
    commas.find(|at| super::has_scheme(text[at + 1..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(given: impl Into<AmqpUrls>) -> Vec<String> {
        given.into().urls
    }

    #[test]
    fn a_comma_before_a_scheme_separates_and_any_other_does_not() {
        for (text, expected) in [
            ("amqp://a", vec!["amqp://a"]),
            ("amqp://a,amqps://b", vec!["amqp://a", "amqps://b"]),
            (" amqp://a , AMQP://b\n", vec!["amqp://a", "AMQP://b"]),
            (
                "amqp://me:a,b,@h/v,amqp://b",
                vec!["amqp://me:a,b,@h/v", "amqp://b"],
            ),
            ("amqp://a,b", vec!["amqp://a,b"]),
            ("amqp://a,", vec!["amqp://a,"]),
            ("", vec![""]),
        ] {
            assert_eq!(urls(text), expected, "{text}");
        }
    }

    #[test]
    fn urls_come_from_any_list_of_texts() {
        let expected = ["amqp://a", "amqp://b", "amqp://c"];
        let texts = ["amqp://a", "amqp://b,amqp://c"];
        let owned = texts.map(String::from).to_vec();
        let joined = owned.join(",");
        assert_eq!(urls(texts), expected);
        assert_eq!(urls(&texts[..]), expected);
        assert_eq!(urls(AmqpUrls::from(&texts)), expected);
        assert_eq!(urls(AmqpUrls::from(&owned)), expected);
        assert_eq!(urls(owned), expected);
        assert_eq!(urls(AmqpUrls::from(&joined)), expected);
        assert_eq!(urls(joined), expected);
    }

    #[test]
    fn no_url_is_shown() {
        let urls = AmqpUrls::from(["amqp://me:secret@a", "amqp://me:secret@b"]);
        assert_eq!(format!("{urls:?}"), "AmqpUrls(2)");
    }
}
