//! A store of idem, used as the executor uses it.

use idem_core::{
    Key, Outcome, Policy, Store,
    message::Fingerprint,
    store::{Claim, ClaimRequest, Lease, Write},
};

use crate::{Result, contender::Contender};

/// A store, and what a handler's policy and result are by default.
#[derive(Clone, Debug)]
pub(crate) struct Ours<S>(pub(crate) S);

impl<S: Store> Ours<S> {
    /// Claims a new key.
    pub(crate) async fn acquire(&self, name: &str) -> Result<Lease> {
        match self.0.claim(&request(name)?).await? {
            Claim::Acquired(lease) if lease.attempt == 1 && !lease.in_doubt => Ok(lease),
            other => Err(format!("the new key `{name}` was answered {other:?}").into()),
        }
    }
}

impl<S: Store> Contender for Ours<S> {
    async fn first(&self, name: &str) -> Result<()> {
        let lease = self.acquire(name).await?;
        let outcome = Outcome::new(&b"null"[..]);
        match (self.0)
            .complete(&lease, &outcome, Policy::DEFAULT.retention())
            .await?
        {
            Write::Applied => Ok(()),
            Write::Fenced => Err(format!("the completion of `{name}` was fenced").into()),
        }
    }

    async fn again(&self, name: &str) -> Result<()> {
        match self.0.claim(&request(name)?).await? {
            Claim::Completed { .. } => Ok(()),
            other => Err(format!("the completed key `{name}` was answered {other:?}").into()),
        }
    }
}

fn request(name: &str) -> Result<ClaimRequest> {
    let request = ClaimRequest::new(Key::new("orders.charge", name)?, &Policy::DEFAULT);
    Ok(request.fingerprint(Fingerprint::of(name.as_bytes())))
}
