//! One line now and then about what waits for the owner: never one for each request, which strangers can send by the
//! thousand.

use std::{convert::Infallible, time::Duration};

use muretai_node::{Agent, agent};
use muretai_store::messages::Direction;

use crate::context::Context;

/// How often is looked.
const POLL: Duration = Duration::from_secs(2);
/// How long it is silent after a line.
const PAUSE: Duration = Duration::from_secs(60);

/// Says on standard error how many requests wait: when it starts, and when there are new ones, at most once a minute.
pub(super) async fn watch(context: &Context, agent: &Agent) -> Infallible {
    let mut told = 0;
    loop {
        let pause = match newest(agent).await {
            Some((newest, waiting)) if newest > told => {
                told = newest;
                let command = context.command_of(agent.name(), "requests");
                tracing::info!(waiting, "requests wait for you: {command} lists them");
                PAUSE
            }
            _ => POLL,
        };
        tokio::time::sleep(pause).await;
    }
}

/// The highest number of what waits, and how much that is. A store that cannot be read is for others to report.
async fn newest(agent: &Agent) -> Option<(i64, usize)> {
    if agent.store().pending_count(agent::now()).await.ok()? == 0 {
        return None;
    }
    let rows = agent.requests(false).await.ok()?;
    let waiting = rows.iter().filter(|row| row.direction == Direction::In);
    let newest = waiting.clone().map(|row| row.id).max()?;
    Some((newest, waiting.count()))
}
