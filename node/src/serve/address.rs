//! Which address the card names when the owner did not say: never a wildcard, never port 0, because the card is signed
//! and spread, and a wrong address travels far.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The public base for a bound address. Says in `warnings` what was guessed.
pub(super) fn public_base(bound: SocketAddr, warnings: &mut Vec<String>) -> String {
    let ip = if bound.ip().is_unspecified() {
        let ip = outward_address(bound.ip());
        warnings.push(format!(
            "{bound} stands for every address of this machine; the card names {}. Use --url to name another one",
            base(ip, bound.port())
        ));
        ip
    } else {
        bound.ip()
    };
    if is_link_local(ip) {
        warnings.push(format!("{ip} is a link-local address that few can dial; use --url to name another one"));
    }
    base(ip, bound.port())
}

/// Whether a base names a wildcard address.
pub(super) fn is_undialable(base: &str) -> bool {
    let authority = base.split_once("://").map_or(base, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_unspecified())
}

fn base(ip: IpAddr, port: u16) -> String {
    // The default port has no place in a canonical base.
    match (ip, port) {
        (IpAddr::V4(ip), 80) => format!("http://{ip}"),
        (IpAddr::V6(ip), 80) => format!("http://[{ip}]"),
        (ip, port) => format!("http://{}", SocketAddr::new(ip, port)),
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// The address that this machine would use towards the outside; loopback when it has no way out. Connecting a UDP
/// socket picks a route and sends nothing; both targets are reserved for documentation.
fn outward_address(wildcard: IpAddr) -> IpAddr {
    let v4 = || local_towards(IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
    let v6 = || {
        let target = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        local_towards(IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(target))
    };
    // A socket on `[::]` takes IPv4 as well on every common system, and more peers can dial IPv4.
    match wildcard {
        IpAddr::V4(_) => v4().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        IpAddr::V6(_) => v4().or_else(v6).unwrap_or(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    }
}

fn local_towards(from: IpAddr, target: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((from, 0)).ok()?;
    socket.connect((target, 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bound: &str) -> (String, Vec<String>) {
        let mut warnings = Vec::new();
        (public_base(bound.parse().unwrap(), &mut warnings), warnings)
    }

    #[test]
    fn a_bound_address_is_named_as_it_is_dialled() {
        assert_eq!(of("127.0.0.1:8080"), ("http://127.0.0.1:8080".to_owned(), vec![]));
        assert_eq!(of("[::1]:8080"), ("http://[::1]:8080".to_owned(), vec![]));
        assert_eq!(of("[200:abcd::1]:80"), ("http://[200:abcd::1]".to_owned(), vec![]));
    }

    #[test]
    fn a_wildcard_is_never_named_and_always_warned_of() {
        for bound in ["0.0.0.0:8080", "[::]:8080"] {
            let (base, warnings) = of(bound);
            assert!(!is_undialable(&base) && base.ends_with(":8080"), "{base}");
            assert_eq!(warnings.len(), 1);
            assert!(warnings[0].contains("--url"));
        }
    }

    #[test]
    fn a_scoped_address_is_named_without_its_scope_and_warned_of() {
        let (base, warnings) = of("[fe80::1%1]:8080");
        assert_eq!(base, "http://[fe80::1]:8080");
        assert_eq!(warnings.len(), 1);
    }

    #[test]
    fn every_derived_base_is_canonical() {
        for bound in ["127.0.0.1:80", "[::1]:80", "0.0.0.0:443", "[::]:1", "[::ffff:127.0.0.1]:8080"] {
            let (base, _) = of(bound);
            muretai_protocol::urls::check_base(&base).unwrap();
        }
    }
}
