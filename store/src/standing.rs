//! What is known of a sender and one of its ids, answered for many callers by one statement.
use std::sync::{Arc, LazyLock};

use sqlx::{Arguments, AssertSqlSafe, Row, SqliteConnection, query_with, sqlite::SqliteArguments};
use tokio::sync::oneshot;

use crate::{
    StoreError,
    key::KEY_BYTES,
    messages::{Handled, Standing},
};

/// Look-ups that share one statement.
pub(crate) const MAX_BATCH: usize = 64;

/// One caller.
pub(crate) struct Asked {
    pub(crate) from: String,
    pub(crate) key: [u8; KEY_BYTES],
    pub(crate) answer: oneshot::Sender<Result<Standing, StoreError>>,
}

/// `STATEMENTS[i]` takes up to `2^i` look-ups: few texts, so that each is prepared once.
static STATEMENTS: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| {
    (0..=MAX_BATCH.ilog2())
        .map(|power| {
            let marks = vec!["?"; 1 << power].join(",");
            format!(
                "SELECT 0, key, digest FROM handled WHERE key IN ({marks}) \
                 UNION ALL SELECT 1 + relation * 2 + is_blocked, address, NULL \
                 FROM contacts JOIN peers ON id = peer WHERE address IN ({marks})"
            )
            .into()
        })
        .collect()
});

/// Answers everyone and empties the list. Gives whether the connection can be used further.
pub(crate) async fn answer(conn: Result<&mut SqliteConnection, StoreError>, asked: &mut Vec<Asked>) -> bool {
    let found = match conn {
        Ok(conn) => look_up(conn, asked).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(standings) => {
            for (one, standing) in asked.drain(..).zip(standings) {
                one.answer.send(Ok(standing)).ok();
            }
            true
        }
        Err(error) => {
            for one in asked.drain(..) {
                one.answer.send(Err(error.clone())).ok();
            }
            !error.is_connection_lost()
        }
    }
}

async fn look_up(conn: &mut SqliteConnection, asked: &[Asked]) -> Result<Vec<Standing>, StoreError> {
    let power = asked.len().next_power_of_two().ilog2() as usize;
    let mut arguments = SqliteArguments::default();
    let add = |result: Result<(), _>| result.map_err(sqlx::Error::Encode);
    for one in asked {
        add(arguments.add(&one.key[..]))?;
    }
    for _ in asked.len()..1 << power {
        add(arguments.add(None::<i64>))?;
    }
    for one in asked {
        add(arguments.add(one.from.as_str()))?;
    }
    let rows = query_with(AssertSqlSafe(STATEMENTS[power].clone()), arguments).fetch_all(conn).await?;
    let mut standings = vec![Standing::default(); asked.len()];
    for row in rows {
        note(&row, asked, &mut standings)?;
    }
    Ok(standings)
}

/// Puts what one row says to everyone whom it concerns.
fn note(row: &sqlx::sqlite::SqliteRow, asked: &[Asked], standings: &mut [Standing]) -> Result<(), StoreError> {
    let kind: i64 = row.try_get(0)?;
    let what: &[u8] = row.try_get_unchecked(1)?;
    for (one, standing) in asked.iter().zip(standings) {
        if kind == 0 && one.key == what {
            let digest: &[u8] = row.try_get(2)?;
            let digest = digest.try_into().map_err(|_| StoreError::Damaged)?;
            standing.handled = Some(Handled { digest });
        } else if kind > 0 && one.from.as_bytes() == what {
            standing.is_direct = (kind - 1) / 2 == crate::contacts::DIRECT;
            standing.is_blocked = (kind - 1) % 2 == 1;
        }
    }
    Ok(())
}
