//! The task that owns the reading connection. Look-ups that wait together share one statement.
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Act, StoreError,
    handled::SharedTail,
    open::Location,
    queue::take_waiting,
    standing::{self, Asked, Known},
};

/// Small: a connection's cache is memory that an idle agent keeps.
const TUNING: &str = "PRAGMA cache_size = -1024";

/// What the reader does.
pub(crate) enum ReadJob {
    /// One look-up of the receive ladder.
    Standing(Asked),
    /// Anything else.
    Act(Act),
    /// Finish what waits, close, and say so.
    Close(oneshot::Sender<()>),
}

/// Serves until every handle is gone or one asks to close.
pub(crate) async fn run(
    location: Location,
    first: Option<SqliteConnection>,
    tail: SharedTail,
    mut jobs: mpsc::Receiver<ReadJob>,
) {
    let mut conn = first;
    let mut waiting = Vec::with_capacity(standing::MAX_BATCH);
    let mut asked = Vec::with_capacity(standing::MAX_BATCH);
    let mut known = Known::default();
    let mut closing = Vec::new();
    while take_waiting(&mut jobs, &mut waiting, standing::MAX_BATCH).await > 0 {
        for job in waiting.drain(..) {
            match job {
                ReadJob::Standing(one) => asked.push(one),
                ReadJob::Act(act) => {
                    if !act(lend(&location, &mut conn).await).await {
                        conn = None;
                    }
                }
                ReadJob::Close(done) => {
                    jobs.close();
                    closing.push(done);
                }
            }
        }
        if conn.is_none() {
            // Whatever is opened next, nothing is known of it.
            known = Known::default();
        }
        if !asked.is_empty() {
            let is_sound = standing::answer(lend(&location, &mut conn).await, &mut asked, &tail, &mut known).await;
            if !is_sound {
                conn = None;
            }
        }
    }
    if let Some(conn) = conn {
        conn.close().await.ok();
    }
    for done in closing {
        done.send(()).ok();
    }
}

async fn lend<'c>(
    location: &Location,
    conn: &'c mut Option<SqliteConnection>,
) -> Result<&'c mut SqliteConnection, StoreError> {
    match conn {
        Some(conn) => Ok(conn),
        None => Ok(conn.insert(location.connect(TUNING).await?)),
    }
}
