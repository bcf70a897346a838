//! The task that owns the reading connection. Look-ups that wait together share one statement.
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Act, StoreError,
    handled::SharedTail,
    introductions::standing as introduced,
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
    /// The introductions that let somebody in.
    Introductions(introduced::Asked),
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
    let mut introductions = Vec::new();
    let mut known = Remembered::default();
    let mut closing = Vec::new();
    while take_waiting(&mut jobs, &mut waiting, standing::MAX_BATCH).await > 0 {
        for job in waiting.drain(..) {
            match job {
                ReadJob::Standing(one) => asked.push(one),
                ReadJob::Introductions(one) => introductions.push(one),
                ReadJob::Act(act) => {
                    if !act(lend(&location, &mut conn, &mut known).await).await {
                        conn = None;
                    }
                }
                ReadJob::Close(done) => {
                    jobs.close();
                    closing.push(done);
                }
            }
        }
        if !asked.is_empty() {
            let lent = lend(&location, &mut conn, &mut known).await;
            if !standing::answer(lent, &mut asked, &tail, &mut known.contacts).await {
                conn = None;
            }
        }
        if !introductions.is_empty() {
            let lent = lend(&location, &mut conn, &mut known).await;
            if !introduced::answer(lent, &mut introductions, &mut known.introductions).await {
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

/// What is remembered of the file that is open.
#[derive(Default)]
struct Remembered {
    contacts: Known,
    introductions: introduced::Known,
}

async fn lend<'c>(
    location: &Location,
    conn: &'c mut Option<SqliteConnection>,
    known: &mut Remembered,
) -> Result<&'c mut SqliteConnection, StoreError> {
    match conn {
        Some(conn) => Ok(conn),
        None => {
            // It may be another file by now.
            *known = Remembered::default();
            Ok(conn.insert(location.connect(TUNING).await?))
        }
    }
}
