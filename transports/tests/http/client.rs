//! The HTTP client against friendly and hostile servers.

use crate::common::*;
use bytes::Bytes;
use muretai_transports::{
    ClientTimeouts, Delivery, PeerAddress, Transport,
    guard::Policy,
    http::{FetchOptions, HttpTransport, ServerLimits},
};

#[tokio::test]
async fn fetches_and_delivers() {
    let server = start("", ServerLimits::default()).await;
    let client = HttpTransport::client(ClientTimeouts::default());
    let base = format!("http://{}", server.address);
    let options = FetchOptions { policy: Policy::Owner, max_bytes: 1_000, redirects: 0 };
    let card = client.fetch(&format!("{base}/.well-known/agent-card.json"), &options).await.unwrap();
    assert_eq!((card.status, &card.body[..]), (200, &br#"{"name":"south"}"#[..]));

    let route = client.route(&PeerAddress { url: Some(base), allow_private: true }).unwrap();
    let Delivery::Answered(body) = client.deliver(&route, Bytes::from_static(b"hello")).await.unwrap();
    assert_eq!(&body[..], b"hello");
}
