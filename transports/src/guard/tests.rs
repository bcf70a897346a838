//! The guard's table: address or URL, and whether owner, peer and public policy let it pass.
use super::*;

const ALL: [Policy; 3] = [Policy::Owner, Policy::Peer, Policy::Public];

/// Address, class, and what passes under owner, peer, public.
const ADDRESSES: &[(&str, &str, [bool; 3])] = &[
    ("1.1.1.1", "public", [true, true, true]),
    ("100.63.255.255", "public", [true, true, true]),
    ("100.128.0.0", "public", [true, true, true]),
    ("172.15.255.255", "public", [true, true, true]),
    ("172.32.0.0", "public", [true, true, true]),
    ("192.0.1.1", "public", [true, true, true]),
    ("198.20.0.1", "public", [true, true, true]),
    ("223.255.255.255", "public", [true, true, true]),
    ("2606:4700:4700::1111", "public", [true, true, true]),
    ("2a00::1", "public", [true, true, true]),
    ("0.0.0.0", "unspecified", [false, false, false]),
    ("0.1.2.3", "unspecified", [false, false, false]),
    ("::", "unspecified", [false, false, false]),
    ("169.254.169.254", "link-local", [false, false, false]),
    ("169.254.0.1", "link-local", [false, false, false]),
    ("fe80::1", "link-local", [false, false, false]),
    ("febf::1", "link-local", [false, false, false]),
    ("224.0.0.1", "multicast", [false, false, false]),
    ("239.255.255.255", "multicast", [false, false, false]),
    ("ff02::1", "multicast", [false, false, false]),
    ("255.255.255.255", "broadcast", [false, false, false]),
    ("127.0.0.1", "loopback", [true, false, false]),
    ("127.255.255.254", "loopback", [true, false, false]),
    ("::1", "loopback", [true, false, false]),
    ("10.0.0.1", "private", [true, false, false]),
    ("172.16.0.1", "private", [true, false, false]),
    ("172.31.255.255", "private", [true, false, false]),
    ("192.168.1.1", "private", [true, false, false]),
    ("fc00::1", "unique local", [true, false, false]),
    ("fd00:ec2::254", "unique local", [true, false, false]),
    ("100.64.0.1", "shared (carrier-grade NAT)", [true, false, false]),
    ("100.100.100.200", "shared (carrier-grade NAT)", [true, false, false]),
    ("192.0.0.192", "reserved", [true, false, false]),
    ("192.0.2.1", "reserved", [true, false, false]),
    ("192.88.99.1", "reserved", [true, false, false]),
    ("198.18.0.1", "reserved", [true, false, false]),
    ("198.51.100.1", "reserved", [true, false, false]),
    ("203.0.113.1", "reserved", [true, false, false]),
    ("240.0.0.1", "reserved", [true, false, false]),
    ("2001:db8::1", "reserved", [true, false, false]),
    ("2001:20::1", "reserved", [true, false, false]),
    ("3fff::1", "reserved", [true, false, false]),
    ("fec0::1", "reserved", [true, false, false]),
    ("100::1", "reserved", [true, false, false]),
    ("4000::1", "reserved", [true, false, false]),
    ("200:abcd::1", "overlay", [true, true, false]),
    ("3ff:ffff::1", "overlay", [true, true, false]),
    // In disguise: mapped, compatible, translated, NAT64 twice, 6to4, Teredo.
    ("::ffff:127.0.0.1", "loopback", [true, false, false]),
    ("::ffff:169.254.169.254", "link-local", [false, false, false]),
    ("::ffff:8.8.8.8", "public", [true, true, true]),
    ("::127.0.0.1", "loopback", [true, false, false]),
    ("::169.254.169.254", "link-local", [false, false, false]),
    ("::ffff:0:10.0.0.1", "private", [true, false, false]),
    ("64:ff9b::10.0.0.1", "private", [true, false, false]),
    ("64:ff9b::8.8.8.8", "public", [true, true, true]),
    ("64:ff9b:1::169.254.169.254", "link-local", [false, false, false]),
    ("64:ff9b:1:ffff:1:2:7f00:1", "loopback", [true, false, false]),
    ("64:ff9b:2::1", "reserved", [true, false, false]),
    ("2002:a9fe:a9fe::1", "link-local", [false, false, false]),
    ("2002:7f00:1::", "loopback", [true, false, false]),
    ("2002:808:808::1", "public", [true, true, true]),
    // 127.0.0.1 and 169.254.169.254 with every bit flipped
    ("2001:0:1234:5678:0:0:80ff:fffe", "loopback", [true, false, false]),
    ("2001:0:1234:5678:0:0:5601:5601", "link-local", [false, false, false]),
    ("2001:0:1234:5678:0:0:f7f7:f7f7", "public", [true, true, true]),
];

#[test]
fn every_class_passes_where_its_policy_says() {
    for (text, class, passes) in ADDRESSES {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(class::of(class::unwrap(address)).words(), *class, "{text}");
        for (policy, pass) in ALL.iter().zip(passes) {
            let verdict = check_address(address, *policy);
            assert_eq!(verdict.is_ok(), *pass, "{text} under {policy:?}: {verdict:?}");
        }
    }
}

#[test]
fn odd_spellings_of_addresses_are_judged_as_what_they_mean() {
    for url in [
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]:80/",
        "http://127.0.0.1./",
        "http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/",
    ] {
        let error = check_url(url, Policy::Peer).unwrap_err();
        assert!(matches!(error, GuardError::Address { class: "loopback", .. }), "{url}: {error}");
        check_url(url, Policy::Owner).unwrap();
    }
    let error = check_url("http://169.254.169.254/latest/meta-data/", Policy::Owner).unwrap_err();
    assert_eq!(error.to_string(), "the address 169.254.169.254 is link-local");
}

#[test]
fn urls_are_refused_by_shape() {
    let long = format!("http://example.com/{}", "a".repeat(MAX_URL_BYTES));
    type Test = fn(&GuardError) -> bool;
    let cases: &[(&str, Test)] = &[
        ("file:///etc/passwd", |e| matches!(e, GuardError::Scheme { .. })),
        ("ftp://example.com/", |e| matches!(e, GuardError::Scheme { .. })),
        ("gopher://example.com/", |e| matches!(e, GuardError::Scheme { .. })),
        ("data:text/plain,hello", |e| matches!(e, GuardError::Scheme { .. })),
        ("http://user@example.com/", |e| matches!(e, GuardError::Userinfo)),
        ("http://user:secret@example.com/", |e| matches!(e, GuardError::Userinfo)),
        ("http://1.1.1.1@127.0.0.1/", |e| matches!(e, GuardError::Userinfo)),
        ("http://[fe80::1%25eth0]:80/", |e| matches!(e, GuardError::Scoped)),
        ("http://[fe80::1%eth0]/", |e| matches!(e, GuardError::Scoped)),
        ("http://::1:8080", |e| matches!(e, GuardError::Syntax { .. } | GuardError::NoHost)),
        ("http://[not-ipv6]:80", |e| matches!(e, GuardError::Syntax { .. })),
        ("http://example.com:70000/", |e| matches!(e, GuardError::Syntax { .. })),
        ("http://", |e| matches!(e, GuardError::NoHost)),
        ("http://./", |e| matches!(e, GuardError::NoHost)),
        ("example.com", |e| matches!(e, GuardError::Syntax { .. })),
        ("", |e| matches!(e, GuardError::Syntax { .. })),
        (" http://example.com/", |e| matches!(e, GuardError::Characters)),
        ("http://exa\nmple.com/", |e| matches!(e, GuardError::Characters)),
        ("http:\\\\example.com\\", |e| matches!(e, GuardError::Characters)),
        (&long, |e| matches!(e, GuardError::TooLong { .. })),
    ];
    for (url, is_expected) in cases {
        let error = check_url(url, Policy::Owner).unwrap_err();
        assert!(is_expected(&error), "{url}: {error:?}");
    }
}

#[test]
fn addresses_that_are_legal_targets_keep_their_brackets() {
    let url = check_url("http://[200:abcd::1]:8080/", Policy::Peer).unwrap();
    assert_eq!(url.as_str(), "http://[200:abcd::1]:8080/");
    assert!(check_url("http://[200:abcd::1]:8080/", Policy::Public).is_err());
    check_url("https://agent.example/path?query", Policy::Public).unwrap();
}

#[test]
fn printed_urls_hide_userinfo_and_stay_short() {
    assert_eq!(printable("http://user:secret@example.com/a"), "http://example.com/a");
    assert!(!printable("http://user:secret@[bad/").contains("secret"));
    assert_eq!(printable("http://example.com/"), "http://example.com/");
    assert_eq!(printable("https://example.com/me/i/Ab3-_x"), "https://example.com/me/i/…");
    assert_eq!(printable("https://example.com/i/Ab3 x"), "https://example.com/i/…");
    assert_eq!(printable("https://example.com/x#d=secret"), "https://example.com/x#…");
    assert_eq!(loggable("https://example.com/card/did:key:z6MkhaXgBZDv"), "https://example.com/card/…haXgBZDv");
    assert_eq!(loggable("https://example.com/card"), "https://example.com/card");
    assert_eq!(printable("https://example.com/listen?token=secret"), "https://example.com/listen?…");
    assert_eq!(printable("https://example.com/i/"), "https://example.com/i/");
    assert!(printable(&"x".repeat(5_000)).chars().count() <= 301);
    assert!(!printable("http://a\u{1b}[31m").contains('\u{1b}'));
}
