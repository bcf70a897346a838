//! Sorts addresses into the classes that the guard's policies speak about (IANA special-purpose registries).
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Global,
    Unspecified,
    LinkLocal,
    Multicast,
    Broadcast,
    Loopback,
    Private,
    UniqueLocal,
    Shared,
    Reserved,
    Overlay,
}

impl Class {
    pub(super) fn words(self) -> &'static str {
        match self {
            Class::Global => "public",
            Class::Unspecified => "unspecified",
            Class::LinkLocal => "link-local",
            Class::Multicast => "multicast",
            Class::Broadcast => "broadcast",
            Class::Loopback => "loopback",
            Class::Private => "private",
            Class::UniqueLocal => "unique local",
            Class::Shared => "shared (carrier-grade NAT)",
            Class::Reserved => "reserved",
            Class::Overlay => "overlay",
        }
    }
}

/// Takes an IPv4 address out of the IPv6 forms that lead to it: a refused address must not pass in disguise.
pub(super) fn unwrap(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => embedded(v6).map_or(address, IpAddr::V4),
    }
}

fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match s {
        // `::` and `::1` are no IPv4-compatible addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        // ::a.b.c.d (compatible), ::ffff:a.b.c.d (mapped), ::ffff:0:a.b.c.d (translated, RFC 2765)
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        // 64:ff9b::/96 (NAT64) and 64:ff9b:1::/48 (local-use NAT64)
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, _, _, _, high, low]
        // 2002::/16 (6to4)
        | [0x2002, high, low, ..] => v4(high, low),
        // 2001::/32 (Teredo): the client's address is stored with every bit flipped
        [0x2001, 0, _, _, _, _, high, low] => v4(!high, !low),
        _ => None,
    }
}

/// The class of an address that [`unwrap`] has already seen.
pub(super) fn of(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(v4) => of_v4(v4),
        IpAddr::V6(v6) => of_v6(v6),
    }
}

fn of_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        [255, 255, 255, 255] => Class::Broadcast,
        // All of "this network": Linux connects 0.0.0.0 to itself.
        [0, ..] => Class::Unspecified,
        [127, ..] => Class::Loopback,
        [169, 254, ..] => Class::LinkLocal,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [100, 64..=127, ..] => Class::Shared,
        [224..=239, ..] => Class::Multicast,
        // IETF protocol assignments, documentation, the old 6to4 relays, benchmarks, future use
        [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [240..=255, ..] => Class::Reserved,
        _ => Class::Global,
    }
}

fn of_v6(address: Ipv6Addr) -> Class {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        [0xff00..=0xffff, ..] => Class::Multicast,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xfc00..=0xfdff, ..] => Class::UniqueLocal,
        [0x0200..=0x03ff, ..] => Class::Overlay,
        // Documentation, and the block of protocol assignments (ORCHID and others; Teredo was unwrapped before)
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] | [0x2001, 0..=0x01ff, ..] => Class::Reserved,
        [0x2000..=0x3fff, ..] => Class::Global,
        // Whatever is not allocated as global unicast.
        _ => Class::Reserved,
    }
}
