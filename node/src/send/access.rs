//! Which addresses a URL may lead to, by who named it (12.1, rule 4).
//!
//! The owner may dial loopback and private addresses. A URL out of a peer's mouth leads there only when the owner
//! allowed it for that contact, or while an agent of this home is served close by: at that very loopback address, or on
//! a private network of the same block. For a contact, another port of loopback is close as well while an agent of this
//! home publishes a loopback address, as on a machine where things are tried out. A service that has stopped is nobody's
//! neighbour, and one behind a public address has none.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use muretai_protocol::urls;
use muretai_store::contacts::{Contact, CoordinateSource};
use muretai_transports::guard::Policy;

use crate::{Agent, send::target::host_of, serve::running_url};

/// The kind of network that a URL's host is on, as far as its spelling tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Loopback,
    /// One of the private blocks; two of the same kind may still be two networks.
    Private(&'static str),
    /// `100.64.0.0/10`, which providers and overlays put between strangers.
    Shared,
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
        [100, 64..=127, ..] => Network::Shared,
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
    pub(crate) fn policy_for_named(&self, url: &str, allow_private: bool) -> Policy {
        if allow_private || self.is_neighbour(url) { Policy::Owner } else { Policy::Peer }
    }

    /// The policy for a contact's stored URL: the owner's own word for it, or the peer's.
    pub(crate) fn policy_for_contact(&self, contact: &Contact, url: &str, allow_private: bool) -> Policy {
        if contact.source == CoordinateSource::Owner {
            return Policy::Owner;
        }
        self.policy_for_named(url, allow_private || contact.allow_private || self.is_near(url))
    }

    /// The policy for the URL of somebody who asked for something, once the owner has decided about it: dialled as a
    /// contact's.
    pub(crate) fn policy_for_asker(&self, url: &str) -> Policy {
        self.policy_for_named(url, self.is_near(url))
    }

    /// Whether another port of loopback is close: while an agent of this home publishes a loopback address.
    fn is_near(&self, url: &str) -> bool {
        network_of(url) == Network::Loopback && self.is_served_on(Network::Loopback)
    }

    /// Whether an agent of this home is served close to such a URL right now.
    fn is_neighbour(&self, url: &str) -> bool {
        match network_of(url) {
            Network::Loopback => {
                let origin = urls::origin(url);
                !origin.is_empty() && self.served_urls().iter().any(|served| urls::origin(served) == origin)
            }
            network @ Network::Private(_) => self.is_served_on(network),
            Network::Shared | Network::Other => false,
        }
    }

    /// Whether an agent of this home publishes an address of this kind right now.
    fn is_served_on(&self, network: Network) -> bool {
        self.served_urls().iter().any(|served| network_of(served) == network)
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
    use crate::testing::{self, serve_elsewhere};

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
            ("http://100.64.0.1", Network::Shared),
            // Odd spellings are nobody's neighbours; the guard reads them as the addresses that they are.
            ("http://2130706433", Network::Other),
            ("http://127.1", Network::Other),
            ("http://0x7f.0.0.1", Network::Other),
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

    #[tokio::test]
    async fn loopback_is_near_only_where_an_agent_of_this_home_is_served_now() {
        let north = testing::agent("north").await;
        let policy = |url: &str| north.agent.policy_for_named(url, false);
        let url = "http://127.0.0.1:4100";
        assert_eq!(policy(url), Policy::Peer);
        let lock = serve_elsewhere(&north, "south", url);
        for same in [url, "http://127.0.0.1:4100/", "HTTP://127.0.0.1:4100/x"] {
            assert_eq!(policy(same), Policy::Owner, "{same}");
        }
        for other in ["http://127.0.0.1:4101", "http://127.0.0.1", "http://127.0.0.2:4100", "http://[::1]:4100"] {
            assert_eq!(policy(other), Policy::Peer, "{other}");
        }
        for odd in ["http://localhost:99999", "http://192.168.1.1", "http://100.64.0.1", "https://127.0.0.1:4100"] {
            assert_eq!(policy(odd), Policy::Peer, "{odd}");
        }
        assert_eq!(north.agent.policy_for_named("http://127.0.0.1:4101", true), Policy::Owner);
        drop(lock);
        assert_eq!(policy(url), Policy::Peer, "a stopped service is no neighbour");
    }

    #[tokio::test]
    async fn a_contact_on_loopback_is_near_while_an_agent_of_this_home_publishes_loopback() {
        let north = testing::agent("north").await;
        let url = "http://127.0.0.1:4101";
        let west = testing::key(9);
        testing::befriend(&north.agent, west.did(), Some(url)).await;
        let contact = north.agent.store().contact(west.did()).await.unwrap().unwrap();
        let contact = Contact { source: CoordinateSource::Peer, allow_private: false, ..contact };
        let policy = || north.agent.policy_for_contact(&contact, url, false);
        assert_eq!(policy(), Policy::Peer);
        let public = serve_elsewhere(&north, "south", "https://south.example");
        assert_eq!(policy(), Policy::Peer, "behind a public address nobody is near");
        drop(public);
        let _local = serve_elsewhere(&north, "south", "http://127.0.0.1:4100");
        assert_eq!(policy(), Policy::Owner);
        assert_eq!(north.agent.policy_for_contact(&contact, "http://192.168.1.1", false), Policy::Peer);
    }

    #[tokio::test]
    async fn private_networks_are_near_while_an_agent_of_this_home_is_served_in_the_same_block() {
        let north = testing::agent("north").await;
        let policy = |url: &str| north.agent.policy_for_named(url, false);
        let lock = serve_elsewhere(&north, "south", "http://192.168.1.7:4100");
        assert_eq!(policy("http://192.168.200.1"), Policy::Owner);
        for other in ["http://10.0.0.1", "http://172.16.0.1", "http://[fd00::1]", "http://127.0.0.1:4100"] {
            assert_eq!(policy(other), Policy::Peer, "{other}");
        }
        drop(lock);
        assert_eq!(policy("http://192.168.200.1"), Policy::Peer);
        let _shared = serve_elsewhere(&north, "south", "http://100.64.0.7");
        assert_eq!(policy("http://100.64.0.8"), Policy::Peer, "shared blocks are full of strangers");
    }

    #[tokio::test]
    async fn where_an_agent_was_served_once_counts_for_nothing() {
        let north = testing::agent("north").await;
        north.agent.store().set_setting(crate::serve::URL_SETTING, Some("http://127.0.0.1:4100")).await.unwrap();
        assert_eq!(north.agent.policy_for_named("http://127.0.0.1:4100", false), Policy::Peer);
    }
}
