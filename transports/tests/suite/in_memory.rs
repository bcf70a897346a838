//! A transport without sockets: it shows that the suite asks for nothing that only HTTP has.
use std::{
    io,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_transports::{
    Delivery, Incoming, PeerAddress, Route, Service, Stop, Transport, TransportError, TransportName,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

type Call = (Bytes, oneshot::Sender<Bytes>);

pub(crate) struct MemoryTransport {
    calls: mpsc::Sender<Call>,
    incoming: Mutex<Option<mpsc::Receiver<Call>>>,
}

impl MemoryTransport {
    pub(crate) fn new() -> MemoryTransport {
        let (calls, incoming) = mpsc::channel(4);
        MemoryTransport { calls, incoming: Mutex::new(Some(incoming)) }
    }
}

#[async_trait]
impl Transport for MemoryTransport {
    fn name(&self) -> TransportName {
        TransportName::Http
    }

    fn route(&self, peer: &PeerAddress) -> Option<Route> {
        let address = peer.url.clone()?;
        Some(Route { transport: self.name(), address, cost: 0, allow_private: peer.allow_private, mailbox: None })
    }

    async fn deliver(&self, route: &Route, request: Bytes) -> Result<Delivery, TransportError> {
        let url = route.address.clone();
        let (sender, answer) = oneshot::channel();
        if self.calls.send((request, sender)).await.is_err() {
            return Err(TransportError::Connect { url, source: io::ErrorKind::ConnectionRefused.into() });
        }
        let lost = |source: oneshot::error::RecvError| TransportError::Closed { url, source: Box::new(source) };
        Ok(Delivery::Answered(answer.await.map_err(lost)?))
    }

    async fn listen(&self, service: Arc<dyn Service>, stop: Stop) -> Result<(), TransportError> {
        let mut incoming = self.incoming.lock().unwrap().take().ok_or(TransportError::NotBound)?;
        let mut tasks = JoinSet::new();
        loop {
            let (body, answer) = tokio::select! {
                biased;
                () = stop.stopped() => break,
                call = incoming.recv() => match call {
                    Some(call) => call,
                    None => break,
                },
            };
            let service = Arc::clone(&service);
            tasks.spawn(async move {
                let outcome =
                    service.call(Incoming { body, a2a_version: None, remote: None, way: Default::default() }).await;
                // Whoever dropped the call does not want the answer.
                let _ = answer.send(outcome.body);
            });
        }
        drop(incoming);
        while tasks.join_next().await.is_some() {}
        Ok(())
    }
}
