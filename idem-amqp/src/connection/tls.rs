//! What TLS to a broker goes by, beside the system's certificates.

use std::fmt;

use lapin::tcp::{Identity, TLSConfig};

/// Whom we trust, and who we are.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    /// An authority that is trusted beside those of the system, in PEM.
    pub(super) authority: Option<String>,
    /// The certificate that is shown to a broker that asks for one.
    pub(super) identity: Option<ClientCertificate>,
}

/// A client certificate and its private key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ClientCertificate {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

impl TlsSettings {
    pub(super) fn is_default(&self) -> bool {
        self.authority.is_none() && self.identity.is_none()
    }

    /// The settings as the AMQP client takes them.
    pub(super) fn config(&self) -> TLSConfig<'_, '_, '_> {
        TLSConfig {
            identity: self.identity.as_ref().map(|own| Identity::PKCS8 {
                pem: &own.certificate,
                key: &own.key,
            }),
            cert_chain: self.authority.as_deref(),
        }
    }
}

/// Leaves out the key.
impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("authority", &self.authority.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}
