//! What a muretai agent remembers, in one SQLite file. What a message means is decided elsewhere.
//!
//! Two processes on one file are normal: WAL, a busy timeout, short transactions that begin as writers. Everything
//! that arrives from concurrent peers goes through a group commit: many messages, one synced transaction.
//!
//! Inside one [`Store`] two tasks own the two connections, one that writes and one that reads, and take requests from
//! bounded queues. A caller that gives up waiting leaves its request whole: it is carried out or it is not.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod batch;
mod check;
pub mod contacts;
pub mod domains;
pub mod errands;
pub mod error;
mod handled;
pub mod introductions;
pub mod invites;
mod listing;
mod lists;
pub mod mailboxes;
pub mod messages;
mod names;
mod open;
pub mod outbox;
mod owner;
mod provisional;
mod queue;
mod reader;
pub mod requests;
pub mod settings;
mod standing;
#[cfg(test)]
mod tests;
mod vouching;
mod writer;

pub use error::StoreError;
pub use owner::recorded_did;

use std::{
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use muretai_protocol::Did;
use sqlx::{SqliteConnection, migrate::Migrator};
use tokio::sync::{mpsc, oneshot};

use crate::{
    handled::SharedTail,
    open::{Location, Watch},
    reader::ReadJob,
    writer::WriteJob,
};

/// Requests that may wait for a task; further callers wait for room.
const QUEUE_LEN: usize = 1024;

/// A future that lives as long as its connection is lent.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an owner of a connection is asked to do with it; when it cannot be opened, the act learns why. Gives whether the
/// connection can be used further.
pub(crate) type Act =
    Box<dyn for<'c> FnOnce(Result<&'c mut SqliteConnection, StoreError>) -> BoxFuture<'c, bool> + Send>;

/// Makes an act whose outcome somebody waits for.
fn answered<T, F>(act: F) -> (Act, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
{
    let (answer, outcome) = oneshot::channel();
    let act: Act = Box::new(move |conn| {
        Box::pin(async move {
            let result = match conn {
                Ok(conn) => act(conn).await,
                Err(error) => Err(error),
            };
            let is_sound = !result.as_ref().is_err_and(StoreError::is_connection_lost);
            answer.send(result).ok();
            is_sound
        })
    });
    (act, outcome)
}

/// An open store. Cheap to clone; closed when the last clone is dropped or by [`Store::close`].
///
/// Must be used inside a tokio runtime with its time driver enabled.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    location: Location,
    /// Watches the file for the writer, who takes it.
    watch: Mutex<Option<Watch>>,
    /// The connection that opened the file, until the reader takes it.
    first: Mutex<Option<SqliteConnection>>,
    writer: OnceLock<mpsc::Sender<WriteJob>>,
    reader: OnceLock<mpsc::Sender<ReadJob>>,
    tail: SharedTail,
    is_closed: AtomicBool,
}

impl Store {
    /// Opens the file, creates it (0600) and its schema when absent, migrates an older one after a backup copy, and
    /// refuses a newer one. The path is opened as a path, never as a URL.
    ///
    /// An empty file is a fresh database. A folder that is missing is made, 0700. A file that is refused is left as it
    /// is.
    pub async fn open(path: &Path) -> Result<Store, StoreError> {
        Store::open_with(path, &open::MIGRATIONS).await
    }

    /// The same for one agent alone: the first opening writes the agent's DID into the file, later ones compare it.
    ///
    /// # Errors
    /// [`StoreError::OtherAgent`] when the file is another agent's; nothing in it has changed.
    pub async fn open_of(path: &Path, did: &Did) -> Result<Store, StoreError> {
        let location = Location::new(path)?;
        let mut first = location.prepare(&open::MIGRATIONS).await?;
        match owner::claim(&mut first, did).await {
            Ok(()) => Ok(Store::over(location, first)),
            Err(error) => {
                // What is refused must not stay open.
                sqlx::Connection::close(first).await.ok();
                Err(error)
            }
        }
    }

    async fn open_with(path: &Path, migrator: &Migrator) -> Result<Store, StoreError> {
        let location = Location::new(path)?;
        let first = location.prepare(migrator).await?;
        Ok(Store::over(location, first))
    }

    fn over(location: Location, first: SqliteConnection) -> Store {
        let watch = Mutex::new(Some(location.watch()));
        Store {
            inner: Arc::new(Inner {
                location,
                watch,
                first: Mutex::new(Some(first)),
                writer: OnceLock::new(),
                reader: OnceLock::new(),
                tail: SharedTail::default(),
                is_closed: AtomicBool::new(false),
            }),
        }
    }

    /// Waits for what was handed in, checkpoints and closes. Later calls on any clone fail with
    /// [`StoreError::Closed`]; closing twice is harmless.
    pub async fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Release);
        let first = self.inner.take_first();
        if let Some(conn) = first {
            sqlx::Connection::close(conn).await.ok();
        }
        if let Some(reader) = self.inner.reader.get() {
            let (done, closed) = oneshot::channel();
            if reader.send(ReadJob::Close(done)).await.is_ok() {
                closed.await.ok();
            }
        }
        if let Some(writer) = self.inner.writer.get() {
            let (done, closed) = oneshot::channel();
            if writer.send(WriteJob::Close(done)).await.is_ok() {
                closed.await.ok();
            }
        }
    }

    /// Runs an act in one transaction that began as a writer.
    pub(crate) async fn write<T, F>(&self, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
    {
        let (act, outcome) = answered(move |conn| Box::pin(writer::in_transaction(conn, act)));
        self.writer()?.send(WriteJob::Act(act)).await.map_err(|_| StoreError::Closed)?;
        outcome.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs an act on the reading connection, outside any transaction.
    pub(crate) async fn read<T, F>(&self, act: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send + 'static,
    {
        let (act, outcome) = answered(act);
        self.reader()?.send(ReadJob::Act(act)).await.map_err(|_| StoreError::Closed)?;
        outcome.await.map_err(|_| StoreError::Closed)?
    }

    /// The writer's queue; the task is started by the first write.
    fn writer(&self) -> Result<&mpsc::Sender<WriteJob>, StoreError> {
        self.refuse_closed()?;
        Ok(self.inner.writer.get_or_init(|| {
            let (sender, jobs) = mpsc::channel(QUEUE_LEN);
            let (location, tail) = (self.inner.location.clone(), self.inner.tail.clone());
            tokio::spawn(writer::run(location, self.inner.take_watch(), tail, jobs));
            sender
        }))
    }

    /// The reader's queue; the task is started by the first read.
    fn reader(&self) -> Result<&mpsc::Sender<ReadJob>, StoreError> {
        self.refuse_closed()?;
        Ok(self.inner.reader.get_or_init(|| {
            let (sender, jobs) = mpsc::channel(QUEUE_LEN);
            tokio::spawn(reader::run(
                self.inner.location.clone(),
                self.inner.take_first(),
                self.inner.tail.clone(),
                jobs,
            ));
            sender
        }))
    }

    fn refuse_closed(&self) -> Result<(), StoreError> {
        if self.inner.is_closed.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(()) }
    }
}

impl Inner {
    fn take_watch(&self) -> Watch {
        let taken = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.unwrap_or_else(|| self.location.watch())
    }

    fn take_first(&self) -> Option<SqliteConnection> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
