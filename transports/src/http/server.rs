//! The server side (section 12.3): accepts connections, as many as allowed, and hands their requests to a service of an
//! agent or to a site.
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    task::{JoinError, JoinSet},
};

use super::{ServerLimits, site::Site};
use crate::{Service, Stop, TransportError};

mod agents;
mod answers;
mod body;
mod chunked;
mod connection;
mod contain;
mod deadline;
mod framing;
mod head;
mod routes;
mod sites;

use agents::AgentHost;
use connection::{Host, Shared};
use sites::{HandOver, SiteHost};

/// First pause after a failed `accept`; it doubles up to [`MAX_PAUSE`]. Running out of file descriptors passes.
const MIN_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Refusals (503) that are waited for at a time; beyond that, one attempt is made to write them.
const MAX_REFUSALS: usize = 32;
/// How long a refused or faulty connection stays open for the peer to read why.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that are read away meanwhile.
const LINGER_BYTES: usize = 262_144;
/// How long a refused peer may take to send its request: an answer that is there before it confuses HTTP clients.
const REFUSAL_DELAY: Duration = Duration::from_millis(250);

/// Connections that may wait to be accepted, where the system allows so many. One too many is not refused: its peer tries
/// again after a second or more, which all listeners of a relay would that come back at once.
const BACKLOG: u32 = 4_096;

/// The tasks of a listener, one a connection.
type Tasks = JoinSet<Option<HandOver>>;

/// A bound listener.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    mount: String,
    limits: ServerLimits,
    /// Taken by `listen`, which closes it when it ends.
    listener: Mutex<Option<TcpListener>>,
}

impl Server {
    pub(super) async fn bind(address: SocketAddr, mount: &str, limits: ServerLimits) -> Result<Server, TransportError> {
        let mount = routes::clean_mount(mount).ok_or_else(|| TransportError::Mount { mount: mount.to_owned() })?;
        let fail = |source| TransportError::Bind { address, source };
        let listener = listener(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Server { address, mount, limits, listener: Mutex::new(Some(listener)) })
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves an agent until stopped, then finishes what is under way. No error of a connection or of `accept` ends it.
    pub(super) async fn listen(&self, service: Arc<dyn Service>, stop: Stop) -> Result<(), TransportError> {
        self.serve(Host::Agent(Arc::new(AgentHost { service, mount: self.mount.clone() })), stop).await
    }

    /// The same for a site.
    pub(super) async fn serve_site(&self, site: Arc<dyn Site>, stop: Stop) -> Result<(), TransportError> {
        self.serve(Host::Site(Arc::new(SiteHost { site, mount: self.mount.clone() })), stop).await
    }

    async fn serve(&self, host: Host, stop: Stop) -> Result<(), TransportError> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listener = listener.ok_or(TransportError::NotBound)?;
        let shared = Arc::new(Shared::new(host, self.limits.clone(), stop.clone()));
        let mut tasks = JoinSet::new();
        accept_until_stopped(&listener, &shared, &stop, &mut tasks).await;
        drop(listener);
        let finished = async {
            while let Some(ended) = tasks.join_next().await {
                go_on(ended, &mut tasks);
            }
        };
        if tokio::time::timeout(self.limits.stop_timeout, finished).await.is_err() {
            tracing::warn!(open = tasks.len(), "connections were cut off at the end");
        }
        tasks.shutdown().await;
        Ok(())
    }
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // On Windows it would let others take the address.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept_until_stopped(listener: &TcpListener, shared: &Arc<Shared>, stop: &Stop, tasks: &mut Tasks) {
    let slots = Arc::new(Semaphore::new(shared.limits.max_connections));
    let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
    let mut pause = MIN_PAUSE;
    let mut stopped = std::pin::pin!(stop.stopped());
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stopped => return,
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                go_on(ended, tasks);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, remote)) => {
                pause = MIN_PAUSE;
                admit(stream, remote, shared, &slots, &refusals, tasks);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, ?pause, "cannot accept connections for now");
                tokio::select! {
                    () = &mut stopped => return,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_PAUSE),
                }
            }
        }
    }
}

fn admit(
    stream: TcpStream,
    remote: SocketAddr,
    shared: &Arc<Shared>,
    slots: &Arc<Semaphore>,
    refusals: &Arc<Semaphore>,
    tasks: &mut Tasks,
) {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        let shared = Arc::clone(shared);
        tasks.spawn(async move {
            let taken = connection::serve(stream, remote, Arc::clone(&shared)).await;
            shared.hand_over(taken?, slot)
        });
    } else if let Ok(slot) = Arc::clone(refusals).try_acquire_owned() {
        tracing::debug!(%remote, "too many connections");
        tasks.spawn(async move {
            let _slot = slot;
            // Whether the peer waits for the answer is its own affair.
            let _ = tokio::time::timeout(LINGER, refuse(stream)).await;
            None
        });
    } else {
        // Best effort: what matters more is that nothing of it is left a moment later.
        let _ = refuse_at_once(stream);
    }
}

/// Answers 503 without ever waiting. What the peer has sent already is read away as far as it is there, because unread
/// input would take the answer back.
fn refuse_at_once(stream: TcpStream) -> io::Result<()> {
    use std::io::{Read as _, Write as _};
    let mut stream = stream.into_std()?; // still non-blocking
    let mut scratch = [0; 4_096];
    for _ in 0..LINGER_BYTES / scratch.len() {
        if stream.read(&mut scratch).unwrap_or(0) == 0 {
            break;
        }
    }
    stream.write_all(&answers::raw(&answers::Plain::Busy))?;
    stream.shutdown(std::net::Shutdown::Write)
}

/// Answers 503 and waits for the peer to close: closing with unread input would take the answer back.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    let _ = tokio::time::timeout(REFUSAL_DELAY, stream.peek(&mut [0])).await;
    stream.write_all(&answers::raw(&answers::Plain::Busy)).await?;
    stream.shutdown().await?;
    let mut scratch = [0; 1024];
    let mut left = LINGER_BYTES;
    while left > 0 {
        match stream.read(&mut scratch).await? {
            0 => break,
            n => left = left.saturating_sub(n),
        }
    }
    Ok(())
}

/// What follows when a task has ended. A connection that a site takes over goes on in a task of its own, which is small:
/// nothing in it has room for the HTTP library, and there may be very many of them.
fn go_on(ended: Result<Option<HandOver>, JoinError>, tasks: &mut Tasks) {
    match ended {
        Ok(None) => {}
        Ok(Some(hand_over)) => {
            tasks.spawn(hand_over.run());
        }
        Err(error) if error.is_panic() => tracing::error!("a connection ended in a panic"),
        Err(_) => {}
    }
}

/// Says whether `accept` failed because of the connection that it took, not because of this process.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
