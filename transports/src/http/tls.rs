//! TLS settings of the client: rustls with ring, no OpenSSL, and no provider installed for the whole process.
//!
//! Roots are the machine's (`SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured), so that the owner decides whom to trust;
//! a machine without any gets those of Mozilla that are built in. They are read when the first https URL is called,
//! never before: parsing a bundle costs milliseconds, which a message to a plain http address need not pay.
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;

use crate::Cause;

/// Settings for clients that only speak http: no roots, so that building them reads nothing.
pub(super) fn without_roots() -> Result<ClientConfig, Cause> {
    configure(RootCertStore::empty())
}

/// Settings for https, made once per process.
pub(super) async fn with_roots() -> Result<ClientConfig, Cause> {
    static CONFIG: OnceCell<ClientConfig> = OnceCell::const_new();
    CONFIG
        .get_or_try_init(|| async {
            let roots = tokio::task::spawn_blocking(roots).await?;
            configure(roots)
        })
        .await
        .cloned()
}

fn roots() -> RootCertStore {
    let mut store = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "a certificate file was not read");
    }
    let (added, ignored) = store.add_parsable_certificates(found.certs);
    tracing::debug!(added, ignored, "root certificates of this machine");
    if store.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    store
}

fn configure(roots: RootCertStore) -> Result<ClientConfig, Cause> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
