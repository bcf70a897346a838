//! `muretai referral`: ask a contact who knows something.

use std::time::Duration;

use muretai_node::{
    Agent,
    trust::referral::{Referral, ReferralRequest, Referred},
};
use serde::Serialize;

use super::{connect, requests};
use crate::{
    clock,
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, paint},
    parse, people, progress, shell, wire,
};

/// Ask a contact whom it knows that can help with something
///
/// Its owner decides who is named. Each answer is an introduction that verifies; it becomes a contact that `muretai
/// send` can write to, and presents the introduction by itself. Without an answer at once the introductions arrive
/// later, as messages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai referral 'German contract law' --ask west\n\
\x20 muretai referral translation --ask west --limit 3 --json")]
pub(crate) struct Args {
    /// What you need, in words
    #[arg(value_parser = parse::not_blank)]
    topic: String,
    /// Contact that is asked
    #[arg(long, value_name = "PEER")]
    ask: String,
    /// At most so many answers, 1 to 20
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=20))]
    limit: u32,
    /// How long the answer may take [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
}

#[derive(Serialize)]
struct ReferredJson<'a> {
    /// `ok` or `queued`.
    status: &'static str,
    referrals: Vec<ReferralJson<'a>>,
    dropped: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReferralJson<'a> {
    name: &'a str,
    did: &'a str,
    expertise: &'a [String],
    trust_level_bp: Option<u16>,
    valid_until: String,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let request = ReferralRequest {
        topic: args.topic.clone(),
        ask: args.ask.clone(),
        limit: args.limit,
        timeout: context.timeout(args.timeout)?,
    };
    context::block_on(async {
        let agent = context.open(request.timeout).await?;
        let peer = people::shown(&request.ask);
        let asking = progress::watch(&context.out, format!("asking {peer}"), agent.referral(&request));
        let referred = asking.await;
        let is_offline = agent.served_by().is_none();
        let attempt = format!("cannot ask `{peer}`");
        let referred = referred.map_err(|error| Failure::of(attempt, &error).about(&request.ask));
        let unreached = match &referred {
            Ok(referred) => unreached(&agent, referred).await,
            Err(_) => Ok(Vec::new()),
        };
        agent.close().await;
        let (referred, unreached) = (referred?, unreached?);
        let result = ReferredJson {
            status: if referred.is_queued { "queued" } else { "ok" },
            referrals: referred.referrals.iter().map(json).collect(),
            dropped: referred.dropped,
        };
        if context.out.is_json {
            context.out.json(&result)?;
        }
        for referral in referred.referrals.iter().filter(|_| !context.out.is_json) {
            context.out.text(&line(referral))?;
        }
        if referred.dropped > 0 {
            context.out.warn(&format!("{} answers of {peer} did not verify and were dropped", referred.dropped));
        }
        for name in &unreached {
            context.out.warn(&format!("no address of {name} is known: you cannot write to it until it tells one"));
        }
        let is_reached = |referral: &&Referral| !unreached.contains(&people::shown(&referral.name));
        match (referred.referrals.iter().find(is_reached), referred.is_queued) {
            (Some(first), _) => context.next(&format!("next: `muretai send {} 'hello'`", shell::quoted(&first.name))),
            (None, _) if !referred.referrals.is_empty() => {}
            (None, true) if is_offline => context.next(connect::OFFLINE),
            (None, true) => context.next(&format!(
                "{peer}'s owner decides; whom it names arrives as a message, `muretai introduce list --held` shows it"
            )),
            (None, false) => context.out.note(&format!("{peer} names nobody")),
        }
        Ok(Exit::Done)
    })
}

/// The names of those of whom no address is known.
async fn unreached(agent: &Agent, referred: &Referred) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for referral in &referred.referrals {
        let contact = agent.store().contact(&referral.did).await;
        let contact = contact.map_err(|error| Failure::of("cannot look up a contact", &error))?;
        if contact.is_none_or(|contact| contact.coordinates.url.is_none()) {
            names.push(people::shown(&referral.name));
        }
    }
    Ok(names)
}

fn line(referral: &Referral) -> String {
    let name = paint(output::STRONG, &people::shown(&referral.name));
    let level = referral.trust_level_bp.map_or_else(|| "-".to_owned(), requests::level);
    let until = clock::local(referral.valid_until);
    let mut line = format!("{name}  {}  level {level}  until {until}", referral.did);
    if !referral.expertise.is_empty() {
        line.push_str(&format!("\n  knows  {}", requests::expertise(&referral.expertise)));
    }
    line
}

fn json(referral: &Referral) -> ReferralJson<'_> {
    ReferralJson {
        name: &referral.name,
        did: referral.did.as_str(),
        expertise: &referral.expertise,
        trust_level_bp: referral.trust_level_bp,
        valid_until: wire::time(referral.valid_until),
    }
}
