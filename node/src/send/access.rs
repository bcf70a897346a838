//! Which addresses a URL may lead to, by who named it (12.1, rule 4).
//!
//! The owner may dial loopback and private addresses. A URL out of a peer's mouth leads there only when the owner
//! allowed it for that contact, or when an agent of this home is served on the same kind of network: then the two are
//! neighbours, and an address that only neighbours can dial is what they would name.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use muretai_store::{
    StoreError,
    contacts::{Contact, CoordinateSource},
};
use muretai_transports::guard::Policy;

use crate::{
    Agent,
    send::target::host_of,
    serve::{URL_SETTING, running_url},
};

/// The kind of network that a URL's host is on, as far as its spelling tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Loopback,
    /// One of the private blocks; two of the same kind may still be two networks.
    Private(&'static str),
    /// Anything else, names that would have to be resolved included.
    Other,
}

/// The kind of network of a URL's host.
pub(crate) fn network_of(url: &str) -> Network {
    let host = host_of(url.split_once("://").map_or(url, |(_, rest)| rest)).trim_end_matches('.').to_ascii_lowercase();
    if host == "localhost" || host.ends_with(".localhost") {
        return Network::Loopback;
    }
    match host.split('%').next().unwrap_or_default().parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => network_of_v4(address),
        Ok(IpAddr::V6(address)) => network_of_v6(address),
        Err(_) => Network::Other,
    }
}

fn network_of_v4(address: Ipv4Addr) -> Network {
    match address.octets() {
        [127, ..] => Network::Loopback,
        [10, ..] => Network::Private("10.0.0.0/8"),
        [172, 16..=31, ..] => Network::Private("172.16.0.0/12"),
        [192, 168, ..] => Network::Private("192.168.0.0/16"),
        [100, 64..=127, ..] => Network::Private("100.64.0.0/10"),
        _ => Network::Other,
    }
}

fn network_of_v6(address: Ipv6Addr) -> Network {
    match address.to_ipv4_mapped() {
        Some(v4) => network_of_v4(v4),
        None if address.is_loopback() => Network::Loopback,
        None if address.is_unique_local() => Network::Private("fc00::/7"),
        None => Network::Other,
    }
}

impl Agent {
    /// The policy for a URL that a peer named.
    pub(crate) async fn policy_for_named(&self, url: &str, allow_private: bool) -> Result<Policy, StoreError> {
        let network = network_of(url);
        let is_allowed = allow_private || (network != Network::Other && self.is_neighbour(network).await?);
        Ok(if is_allowed { Policy::Owner } else { Policy::Peer })
    }

    /// The policy for a contact's stored URL: the owner's own word for it, or the peer's.
    pub(crate) async fn policy_for_contact(
        &self,
        contact: &Contact,
        url: &str,
        allow_private: bool,
    ) -> Result<Policy, StoreError> {
        if contact.source == CoordinateSource::Owner {
            return Ok(Policy::Owner);
        }
        self.policy_for_named(url, allow_private || contact.allow_private).await
    }

    /// Whether this agent, or another of this home, is served on such a network.
    async fn is_neighbour(&self, network: Network) -> Result<bool, StoreError> {
        let own = self.store().setting(URL_SETTING).await?;
        if own.is_some_and(|url| network_of(&url) == network) {
            return Ok(true);
        }
        Ok(self.served_urls().iter().any(|url| network_of(url) == network))
    }

    /// The URLs that the agents of this home are served at right now.
    fn served_urls(&self) -> Vec<String> {
        let Some(agents) = self.inner.dir.path.parent() else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(agents) else { return Vec::new() };
        entries.flatten().filter_map(|entry| running_url(&entry.path().join("serve.lock"))).collect()
    }

    /// Where this agent is served right now.
    pub(crate) fn served_url(&self) -> Option<String> {
        self.served_by().map(|holder| holder.url).filter(|url| !url.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_networks_apart() {
        for (url, network) in [
            ("http://127.0.0.1:8080/", Network::Loopback),
            ("http://localhost", Network::Loopback),
            ("http://a.LOCALHOST./x", Network::Loopback),
            ("http://[::1]:80", Network::Loopback),
            ("http://[::ffff:127.0.0.1]", Network::Loopback),
            ("http://192.168.7.7", Network::Private("192.168.0.0/16")),
            ("http://10.1.2.3:9", Network::Private("10.0.0.0/8")),
            ("http://172.31.0.1", Network::Private("172.16.0.0/12")),
            ("http://[fd00::1]", Network::Private("fc00::/7")),
            ("http://172.32.0.1", Network::Other),
            ("http://[200::1]", Network::Other),
            ("http://user@127.0.0.1@south.example", Network::Other),
            ("https://localhost.south.example", Network::Other),
            ("https://south.example/127.0.0.1", Network::Other),
            ("", Network::Other),
        ] {
            assert_eq!(network_of(url), network, "{url}");
        }
    }
}
