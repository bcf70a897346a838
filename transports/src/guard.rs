//! The URL guard (12.1): which addresses may be dialled for a URL that came from somebody else.
use std::net::IpAddr;

/// How strict to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The owner named the host, or allowed it: only link-local, unspecified, multicast and broadcast are refused.
    Owner,
    /// A peer named it: loopback, private, ULA, shared, reserved addresses are refused too. Overlay `200::/7` stays.
    Peer,
    /// Evidence and invites from unknown hosts: overlay addresses are refused too.
    Public,
}

/// Why an address is not dialled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// To be split: scheme, no host, userinfo, unresolvable, address class.
    #[error("{address} is a {class} address")]
    Address {
        /// The address.
        address: IpAddr,
        /// Its class in words.
        class: &'static str,
    },
}

/// Judges one address after unwrapping IPv4-mapped, 6to4, Teredo and NAT64 forms.
pub fn check_address(_address: IpAddr, _policy: Policy) -> Result<(), GuardError> {
    todo!()
}
