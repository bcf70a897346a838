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
    output, people,
    progress::Counter,
    shell,
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
    let worst = worst(synced);
    for (number, one) in synced.iter().enumerate() {
        match &one.failure {
            None => context.out.note(&line(one)),
            // What ends the command is told at its end.
            Some(_) if worst == Some(number) => {}
            Some(error) => context.out.warn(&output::in_one_line(&Failure::io("cannot fetch all of the mail", error))),
        }
        if one.has_superseded {
            context.out.warn(&superseded(one));
        }
        if one.is_forgotten {
            context.out.warn(&format!(
                "{} was named by a peer and has been out of reach for 30 days; it is asked no more",
                people::shown(&one.relay)
            ));
        }
    }
    let is_dispensable = |one: &Synced| one.failure.is_some() && !one.is_chosen && !one.is_forgotten;
    if let Some(one) = synced.iter().find(|one| is_dispensable(one)) {
        context.next(&format!("`muretai inbox --forget {}` if that relay is gone for good", shell::quoted(&one.relay)));
    }
    if synced.iter().any(|one| one.rejected > 0) {
        context.next("`muretai inbox --rejected` shows what was refused");
    }
    if let Some(error) = worst.and_then(|number| synced[number].failure.as_ref()) {
        return Err(Failure::of("cannot fetch all of the mail", error));
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

/// The failure that ends the command: of a relay that the owner chose, or of whichever when there is no other relay.
fn worst(synced: &[Synced]) -> Option<usize> {
    let has_failed = |one: &Synced| one.failure.is_some();
    let chosen = synced.iter().position(|one| has_failed(one) && one.is_chosen);
    chosen.or_else(|| synced.iter().all(has_failed).then_some(0)).filter(|number| *number < synced.len())
}

fn superseded(synced: &Synced) -> String {
    format!(
        "another program listened for this identity at {}, from another home or computer, and was superseded; letters \
         that it took are not here",
        people::shown(&synced.relay)
    )
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
    use muretai_node::mail::MailError;

    use super::*;

    fn one() -> Synced {
        Synced {
            relay: "https://relay.example".to_owned(),
            letters: 0,
            rejected: 0,
            left: 0,
            is_served: false,
            is_chosen: false,
            has_superseded: false,
            is_forgotten: false,
            failure: None,
        }
    }

    #[test]
    fn a_relay_is_told_in_a_line() {
        assert_eq!(line(&one()), "https://relay.example: no letter");
        let some = Synced { letters: 3, rejected: 1, ..one() };
        assert_eq!(line(&some), "https://relay.example: 3 letters, 1 refused");
        assert!(line(&Synced { is_served: true, ..one() }).contains("`muretai serve` listens"));
        assert!(superseded(&Synced { has_superseded: true, ..one() }).contains("https://relay.example"));
    }

    #[test]
    fn only_a_relay_that_the_owner_chose_or_the_last_one_ends_the_command() {
        let bad = || Synced { failure: Some(MailError::Elsewhere), ..one() };
        let chosen = || Synced { is_chosen: true, ..bad() };
        assert_eq!(worst(&[one(), Synced { is_chosen: true, ..one() }]), None);
        assert_eq!(worst(&[bad(), one()]), None);
        assert_eq!(worst(&[bad(), one(), chosen()]), Some(2));
        assert_eq!(worst(&[bad(), bad()]), Some(0));
    }
}
