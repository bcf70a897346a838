//! The task that owns the writing connection. Messages that wait together share one transaction.
use sqlx::{Connection, SqliteConnection, raw_sql};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Act, BoxFuture, StoreError,
    batch::{Batch, MAX_BATCH, Pending},
    handled::SharedTail,
    open::{Location, Watch},
    queue::take_waiting,
};

/// The log is written back every 4,000 pages and cut to 32 MiB after a burst.
const TUNING: &str =
    "PRAGMA cache_size = -4096; PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 33554432";

/// What the writer does.
#[allow(clippy::large_enum_variant, reason = "the large one is nearly all of them")]
pub(crate) enum WriteJob {
    /// One message from a peer, to be committed together with others.
    Received(Pending),
    /// Anything else, in a transaction of its own.
    Act(Act),
    /// Finish what waits, checkpoint, close, and say so.
    Close(oneshot::Sender<()>),
}

/// Serves until every handle is gone or one asks to close.
pub(crate) async fn run(location: Location, watch: Watch, tail: SharedTail, mut jobs: mpsc::Receiver<WriteJob>) {
    let mut writer = Writer { location, watch, conn: None };
    let mut batch = Batch::new(tail);
    let mut waiting = Vec::with_capacity(MAX_BATCH);
    let mut closing = Vec::new();
    while take_waiting(&mut jobs, &mut waiting, MAX_BATCH).await > 0 {
        for job in waiting.drain(..) {
            match job {
                WriteJob::Received(one) => batch.push(one),
                WriteJob::Act(act) => {
                    // In order of arrival, also between the two kinds.
                    writer.flush(&mut batch).await;
                    if !act(writer.lend().await).await {
                        writer.conn = None;
                    }
                }
                WriteJob::Close(done) => {
                    jobs.close();
                    closing.push(done);
                }
            }
        }
        writer.flush(&mut batch).await;
    }
    if let Some(mut conn) = writer.conn {
        // Best effort: another process that reads may stand in the way, and then it does this when it closes.
        raw_sql("PRAGMA busy_timeout = 200; PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut conn).await.ok();
        conn.close().await.ok();
    }
    for done in closing {
        done.send(()).ok();
    }
}

/// The writing connection, opened at its first use.
struct Writer {
    location: Location,
    watch: Watch,
    conn: Option<SqliteConnection>,
}

impl Writer {
    async fn flush(&mut self, batch: &mut Batch) {
        if !batch.is_empty() {
            let is_sound = batch.commit(self.lend().await).await;
            if !is_sound {
                self.conn = None;
            }
        }
    }

    /// The connection, once it is sure that it writes where others will look.
    async fn lend(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        self.watch.check()?;
        if self.conn.is_none() {
            self.conn = Some(self.location.connect(TUNING).await?);
        }
        self.conn.as_mut().ok_or(StoreError::Closed)
    }
}

/// Runs an act between `BEGIN IMMEDIATE` and `COMMIT`; a failure rolls back. Beginning as a writer is what makes the
/// busy timeout work: a transaction that reads first and writes later fails at once when another got in between.
pub(crate) async fn in_transaction<T>(
    conn: &mut SqliteConnection,
    act: impl for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, StoreError>>,
) -> Result<T, StoreError> {
    begin(conn).await?;
    match act(conn).await {
        Ok(value) => commit(conn).await.map(|()| value),
        Err(error) => {
            roll_back(conn).await;
            Err(error)
        }
    }
}

/// Begins as a writer.
pub(crate) async fn begin(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    raw_sql("BEGIN IMMEDIATE").execute(conn).await?;
    Ok(())
}

/// Commits, or rolls back when that fails.
pub(crate) async fn commit(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    if let Err(error) = raw_sql("COMMIT").execute(&mut *conn).await {
        roll_back(conn).await;
        return Err(error.into());
    }
    Ok(())
}

/// Ends whatever transaction is left. Fails harmlessly when SQLite has ended it already.
pub(crate) async fn roll_back(conn: &mut SqliteConnection) {
    raw_sql("ROLLBACK").execute(conn).await.ok();
}
