//! `inbox --sync`: what lies at relays, fetched once.

use std::time::Duration;

use muretai_node::{
    Agent,
    mail::{SyncRequest, Synced},
};

use super::Args;
use crate::{
    context::Context,
    failure::Failure,
    mail::{self, Reception},
    people,
    progress::Counter,
    signals::Signals,
};

/// How long it may take: a full mailbox with answers to make takes longer than one message.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// Fetches, and says what came of it beside the messages themselves.
pub(super) async fn fetch(context: &Context, args: &Args, agent: &Agent) -> Result<(), Failure> {
    let attempt = "cannot fetch the mail";
    let request = SyncRequest {
        relays: args.relay.clone(),
        timeout: args.timeout.unwrap_or(DEFAULT_TIMEOUT),
        times: mail::relay_times()?,
    };
    let mut signals = Signals::catch()?;
    let reception = Reception::open(context, agent, attempt).await?;
    let counter = Counter::start(&context.out, "letters fetched");
    let synced = tokio::select! {
        synced = agent.sync_mail(&request, &reception.options, counter.handle()) => {
            synced.map_err(|error| Failure::of(attempt, &error))
        }
        () = signals.next() => Err(Failure::failed("interrupted while fetching the mail")
            .hint("what was not fetched stays at the relay")),
    };
    drop(counter);
    reception.close().await;
    told(context, &synced?)
}

fn told(context: &Context, synced: &[Synced]) -> Result<(), Failure> {
    for one in synced {
        context.out.note(&line(one));
    }
    if synced.iter().any(|one| one.rejected > 0) {
        context.next("`muretai inbox --rejected` shows what was refused");
    }
    let left: u64 = synced.iter().map(|one| one.left).sum();
    if left == 0 {
        return Ok(());
    }
    let message = format!(
        "{} could not be stored now, and the relay keeps {}",
        letters(left),
        if left == 1 { "it" } else { "them" }
    );
    Err(Failure::failed(message).hint("`muretai doctor` looks at the disk and the database"))
}

fn line(synced: &Synced) -> String {
    let relay = people::shown(&synced.relay);
    if synced.is_served {
        return format!("{relay}: `muretai serve` listens there and fetches what comes");
    }
    let mut line = match synced.letters {
        0 => format!("{relay}: no letter"),
        count => format!("{relay}: {}", letters(count)),
    };
    if synced.rejected > 0 {
        line.push_str(&format!(", {} refused", synced.rejected));
    }
    line
}

fn letters(count: u64) -> String {
    if count == 1 { "1 letter".to_owned() } else { format!("{count} letters") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_is_told_in_a_line() {
        let one =
            Synced { relay: "https://relay.example".to_owned(), letters: 0, rejected: 0, left: 0, is_served: false };
        assert_eq!(line(&one), "https://relay.example: no letter");
        let some = Synced { letters: 3, rejected: 1, ..one.clone() };
        assert_eq!(line(&some), "https://relay.example: 3 letters, 1 refused");
        assert!(line(&Synced { is_served: true, ..one }).contains("`muretai serve` listens"));
    }
}
