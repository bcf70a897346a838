//! Where a relay is: the addresses that it answers for, from its configuration and from nothing that a request says.
use std::net::{IpAddr, SocketAddr};

use muretai_protocol::urls;

use crate::RelayError;

/// The path below which the relay is served: that of its first URL.
pub(crate) fn mount_of(configured: &[String]) -> Result<String, RelayError> {
    for url in configured {
        urls::check_base(url).map_err(|source| RelayError::BadUrl { url: url.clone(), source })?;
    }
    let first = configured.first().and_then(|url| urls::mount(url));
    Ok(first.unwrap_or_default().to_owned())
}

/// The origins that tokens are taken for (9.3). Without a URL: the bound address, and by which names this machine may
/// call itself.
pub(crate) fn origins(configured: &[String], bound: SocketAddr) -> Vec<String> {
    let port = bound.port();
    let mut origins: Vec<String> = match configured {
        [] => {
            let ip = bound.ip().to_canonical();
            let own = match ip.is_loopback() || ip.is_unspecified() {
                true => vec![
                    format!("http://localhost:{port}"),
                    format!("http://127.0.0.1:{port}"),
                    format!("http://[::1]:{port}"),
                ],
                false => Vec::new(),
            };
            std::iter::once(format!("http://{bound}")).chain(own).collect()
        }
        urls => urls.to_vec(),
    };
    origins.iter_mut().for_each(|url| *url = urls::origin(url));
    origins.retain(|origin| !origin.is_empty());
    origins.sort();
    origins.dedup();
    origins
}

/// What the owner should know about these addresses.
pub(crate) fn warnings(configured: &[String], bound: SocketAddr) -> Vec<String> {
    let mut warnings = Vec::new();
    if configured.is_empty() && bound.ip().is_unspecified() {
        warnings.push(format!(
            "this relay has no URL: only agents on this machine can listen at {bound}, and links that it makes lead nowhere"
        ));
    }
    for url in configured.iter().filter(|url| urls::is_wildcard(url)) {
        warnings.push(format!("nobody can dial {url}: it names no host"));
    }
    let mount = configured.first().and_then(|url| urls::mount(url));
    for url in configured.iter().skip(1).filter(|url| urls::mount(url) != mount) {
        warnings.push(format!("{url} has another path than the first URL; only the first one's path is served"));
    }
    for url in configured.iter().filter(|url| !urls::is_plain_url(url)) {
        warnings.push(format!("{url} is of a shape that agents do not take for a relay's address"));
    }
    warnings.extend(
        configured
            .first()
            .filter(|url| is_local(url) && !bound.ip().is_loopback())
            .map(|url| format!("{url} leads every agent to itself, and this relay listens on {bound} for others")),
    );
    warnings
}

fn is_local(url: &str) -> bool {
    let origin = urls::origin(url);
    let host = origin.split_once("://").map_or("", |(_, rest)| rest);
    let host = host
        .rsplit_once(':')
        .filter(|(host, _)| !host.contains(':') || host.ends_with(']'))
        .map_or(host, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(urls: &[&str]) -> Vec<String> {
        urls.iter().map(|url| (*url).to_owned()).collect()
    }

    #[test]
    fn origins_come_from_the_configuration() {
        let bound: SocketAddr = "127.0.0.1:8421".parse().unwrap();
        let configured = texts(&["https://relay.example", "https://relay.example/mail", "http://10.0.0.1:8421"]);
        assert_eq!(origins(&configured, bound), ["http://10.0.0.1:8421", "https://relay.example"]);
        assert_eq!(origins(&[], bound), ["http://127.0.0.1:8421", "http://[::1]:8421", "http://localhost:8421"]);
        assert_eq!(origins(&[], "192.0.2.1:80".parse().unwrap()), ["http://192.0.2.1"]);
        assert!(origins(&[], "0.0.0.0:8421".parse().unwrap()).contains(&"http://localhost:8421".to_owned()));
    }

    #[test]
    fn urls_are_canonical_and_the_first_one_has_the_mount() {
        assert_eq!(mount_of(&texts(&["https://relay.example/mail"])).unwrap(), "/mail");
        assert_eq!(mount_of(&[]).unwrap(), "");
        assert!(matches!(mount_of(&texts(&["https://relay.example/"])), Err(RelayError::BadUrl { .. })));
    }

    #[test]
    fn addresses_that_lead_nowhere_are_told() {
        let bound: SocketAddr = "0.0.0.0:8421".parse().unwrap();
        assert_eq!(warnings(&[], bound).len(), 1);
        assert_eq!(warnings(&texts(&["https://relay.example"]), bound), Vec::<String>::new());
        assert_eq!(warnings(&texts(&["http://0.0.0.0:8421"]), bound).len(), 1);
        assert_eq!(warnings(&texts(&["http://[::1]:8421"]), bound).len(), 1);
        assert_eq!(warnings(&texts(&["http://localhost"]), bound).len(), 1);
        assert_eq!(warnings(&texts(&["https://a.example/x", "https://b.example"]), bound).len(), 1);
        assert_eq!(warnings(&[], "127.0.0.1:8421".parse().unwrap()), Vec::<String>::new());
    }
}
