//! The resolver that holds the guard: a name is looked up once, every address of it is judged, and the connector gets
//! the approved addresses and nothing else. There is no second look-up that a hostile name server could answer
//! differently (DNS rebinding).
use std::{io, net::SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::guard::{self, GuardError, Policy};

/// Addresses of one name that are tried at most; names with more are served by the first ones.
const MAX_ADDRESSES: usize = 16;

/// Resolves names under one policy.
#[derive(Debug)]
pub(super) struct GuardedResolver {
    policy: Policy,
}

impl GuardedResolver {
    pub(super) fn new(policy: Policy) -> GuardedResolver {
        GuardedResolver { policy }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy;
        Box::pin(async move {
            // Port 0 tells the connector to use the one of the URL.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(ResolveError)?;
            let approved = approve(found, policy)?;
            Ok(Box::new(approved.into_iter()) as Addrs)
        })
    }
}

/// One refused address refuses the name: whoever mixes them is up to something.
fn approve(found: impl Iterator<Item = SocketAddr>, policy: Policy) -> Result<Vec<SocketAddr>, GuardError> {
    let mut approved = Vec::new();
    for address in found {
        guard::check_address(address.ip(), policy)?;
        if approved.len() < MAX_ADDRESSES {
            approved.push(address);
        }
    }
    if approved.is_empty() { Err(GuardError::NoAddress) } else { Ok(approved) }
}

/// Marks an error as the resolver's, to be told from those of the connection.
#[derive(Debug, thiserror::Error)]
#[error("the name cannot be resolved")]
pub(super) struct ResolveError(#[source] pub(super) io::Error);

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> impl Iterator<Item = SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn one_refused_address_refuses_the_name() {
        assert_eq!(approve(addresses(&["1.1.1.1", "2606:4700::1"]), Policy::Peer).unwrap().len(), 2);
        assert!(approve(addresses(&["1.1.1.1", "127.0.0.1"]), Policy::Peer).is_err());
        assert!(approve(addresses(&["1.1.1.1", "169.254.169.254"]), Policy::Owner).is_err());
        assert_eq!(approve(addresses(&[]), Policy::Owner), Err(GuardError::NoAddress));
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let many = (0..1_000u32).map(|n| SocketAddr::new(std::net::Ipv4Addr::from(0x0101_0000 + n).into(), 0));
        assert_eq!(approve(many, Policy::Public).unwrap().len(), MAX_ADDRESSES);
    }

    #[tokio::test]
    async fn a_name_that_means_loopback_is_refused_for_peers() {
        let name: Name = "localhost".parse().unwrap();
        let error = GuardedResolver::new(Policy::Peer).resolve(name).await.err().unwrap();
        assert!(error.downcast_ref::<GuardError>().is_some(), "{error:?}");
    }
}
