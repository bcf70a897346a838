//! What is known of a sender and one of its ids, answered for many callers by one statement.
use std::sync::{Arc, LazyLock};

use sqlx::{
    Arguments, AssertSqlSafe, Row, SqliteConnection, query_with,
    sqlite::{SqliteArguments, SqliteRow},
};
use tokio::sync::oneshot;

use crate::{
    StoreError, contacts,
    handled::{Key, SharedTail, decode, digest_from},
    messages::{Handled, Standing},
};

/// Look-ups that share one statement.
pub(crate) const MAX_BATCH: usize = 64;

/// One caller.
pub(crate) struct Asked {
    pub(crate) from: String,
    pub(crate) key: Key,
    pub(crate) answer: oneshot::Sender<Result<Standing, StoreError>>,
}

/// `STATEMENTS[i]` takes up to `2^i` look-ups: few texts, so that each is prepared once.
static STATEMENTS: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| {
    (0..=MAX_BATCH.ilog2())
        .map(|power| {
            let marks = vec!["?"; 1 << power].join(",");
            format!(
                "SELECT {HANDLED}, key, digest FROM handled WHERE key IN ({marks}) \
                 UNION ALL SELECT {CONTACT} + relation * 2 + is_blocked, address, NULL \
                 FROM contacts JOIN peers ON id = peer WHERE address IN ({marks}) \
                 UNION ALL SELECT {LOG}, entries, id FROM handled_log WHERE id > ?"
            )
            .into()
        })
        .collect()
});

// The first column of a row says what it is.
const LOG: i64 = 0;
const HANDLED: i64 = 1;
const CONTACT: i64 = 2;

/// Answers everyone and empties the list. Gives whether the connection can be used further.
pub(crate) async fn answer(
    conn: Result<&mut SqliteConnection, StoreError>,
    asked: &mut Vec<Asked>,
    tail: &SharedTail,
) -> bool {
    let found = match conn {
        Ok(conn) => look_up(conn, asked, tail).await,
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

/// The tail is asked before the database: what leaves it meanwhile is in the table by then.
async fn look_up(conn: &mut SqliteConnection, asked: &[Asked], tail: &SharedTail) -> Result<Vec<Standing>, StoreError> {
    let (mut standings, seen) = {
        let tail = tail.lock();
        let known = |one: &Asked| Standing {
            handled: tail.digest(&one.key).map(|digest| Handled { digest }),
            ..Standing::default()
        };
        (asked.iter().map(known).collect::<Vec<_>>(), tail.seen())
    };
    let power = asked.len().next_power_of_two().ilog2() as usize;
    let arguments = arguments(asked, 1 << power, seen).map_err(sqlx::Error::Encode)?;
    let rows = query_with(AssertSqlSafe(STATEMENTS[power].clone()), arguments).fetch_all(conn).await?;
    let mut news = Vec::new();
    let mut last = seen;
    for row in rows {
        let kind: i64 = row.try_get(0)?;
        if kind == LOG {
            news.append(&mut decode(row.try_get_unchecked(1)?)?);
            last = last.max(row.try_get_unchecked(2)?);
        } else {
            note(kind, &row, asked, &mut standings)?;
        }
    }
    if last > seen {
        for (one, standing) in asked.iter().zip(&mut standings) {
            let found = news.iter().find(|(key, _)| *key == one.key);
            standing.handled = found.map(|(_, digest)| Handled { digest: *digest }).or(standing.handled);
        }
        tail.lock().take(news, last);
    }
    Ok(standings)
}

fn arguments(asked: &[Asked], room: usize, seen: i64) -> Result<SqliteArguments, sqlx::error::BoxDynError> {
    let mut to = SqliteArguments::default();
    to.reserve(2 * room + 1, 0);
    for one in asked {
        to.add(&one.key[..])?;
    }
    for _ in asked.len()..room {
        to.add(None::<i64>)?;
    }
    for one in asked {
        to.add(one.from.as_str())?;
    }
    for _ in asked.len()..room {
        to.add(None::<i64>)?;
    }
    to.add(seen)?;
    Ok(to)
}

/// Puts what one row says to everyone whom it concerns.
fn note(kind: i64, row: &SqliteRow, asked: &[Asked], standings: &mut [Standing]) -> Result<(), StoreError> {
    let what: &[u8] = row.try_get_unchecked(1)?;
    for (one, standing) in asked.iter().zip(standings) {
        if kind == HANDLED && one.key == what {
            standing.handled = Some(Handled { digest: digest_from(row, 2)? });
        } else if kind >= CONTACT && one.from.as_bytes() == what {
            standing.is_direct = (kind - CONTACT) / 2 == contacts::DIRECT;
            standing.is_introduced = (kind - CONTACT) / 2 == contacts::INTRODUCED;
            standing.is_blocked = (kind - CONTACT) % 2 == 1;
        }
    }
    Ok(())
}
