//! `muretai tour`: the main job with real processes in a temporary home, checked at every step.

use muretai_node::Home;
use serde_json::Value;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, paint},
    signals::Signals,
};

mod replay;
mod stage;

use stage::{Stage, Told};

/// See it work: agents meet, talk, keep a stranger out and let it in on somebody's word, with real output
///
/// Runs real commands in a temporary home, which is removed at the end, and prints each command and what came back.
/// Nothing of yours is touched and nothing leaves this machine. It ends with 0 only when every step showed what it
/// should.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai tour\n\
\x20 muretai tour --json")]
pub(crate) struct Args {}

const NEXT: &str = "\
What to type next:
  muretai keygen NAME                   an identity of your own
  muretai serve                         be reachable; --listen, --url and --reply-with say how
  muretai invite create                 a link for somebody you want to hear from
  muretai claim LINK                    the other side of it
  muretai requests                      who else wants to be let in
  muretai doctor                        when something does not work";

pub(crate) fn run(context: &Context, _args: &Args) -> Result<Exit, Failure> {
    context::block_on(async {
        let mut signals = Signals::catch()?;
        let mut stage = Stage::set(context.out)?;
        let ended = tokio::select! {
            ended = play(&mut stage) => ended,
            () = signals.next() => Err(Failure::failed("the tour was interrupted: its processes and its home are gone")),
        };
        // Also after a failure: no process and no folder stays behind.
        let cleared = stage.clear().await;
        ended?;
        cleared?;
        if !context.out.is_json {
            context.out.text(&format!("\n{}\n\n{NEXT}", paint(output::STRONG, "Everything was as it should be.")))?;
        }
        Ok(Exit::Done)
    })
}

async fn play(stage: &mut Stage) -> Result<(), Failure> {
    stage.title("Two identities, north and south. Each is its own key.")?;
    let north = did_of(stage, "north").await?;
    let south = did_of(stage, "south").await?;

    stage.title("South becomes reachable. Its answers come from a command: tr a-z A-Z.")?;
    let url = stage.serve("south", &["serve", "--listen", "127.0.0.1:0", "--reply-with", "tr a-z A-Z"]).await?;

    stage.title("South makes an invite, north claims it. Now they trust each other.")?;
    let link = stage.run(&["--as", "south", "invite", "create"]).await?;
    link.expect(0, "a link of the address that south is reached at", |told| told.stdout.starts_with(&url))?;
    let claim = stage.run(&["--as", "north", "claim", link.stdout.trim()]).await?;
    claim.expect(0, "south's DID", |told| told.stdout.contains(&south))?;

    stage.title("North sends a signed message. The reply is signed by south, and checked before it is shown.")?;
    let reply = stage.run(&["--as", "north", "send", "south", "hello"]).await?;
    reply.expect(0, "HELLO", |told| told.stdout == "HELLO\n")?;
    let reply = stage.run(&["--as", "north", "send", "south", "and once more", "--json"]).await?;
    reply.expect(0, "a verified reply of south", |told| is_verified_reply(told, &south, "AND ONCE MORE"))?;
    let inbox = stage.run(&["--as", "south", "inbox"]).await?;
    inbox.expect(0, "both messages, from north's DID", |told| {
        told.stdout.contains(&north) && told.stdout.contains("hello") && told.stdout.contains("and once more")
    })?;

    stage.title("East, whom south does not know, knocks. It is refused with -32010.")?;
    let east = did_of(stage, "east").await?;
    let stranger = stage.run(&["--as", "east", "send", &url, "let me in"]).await?;
    stranger.expect(3, "the refusal -32010", |told| told.stderr.contains("-32010"))?;

    introduction(stage, &url, &east).await?;

    stage.title("Somebody recorded a message of north and sends the same bytes again. It is refused with -32002.")?;
    let home = Home::at(stage.home());
    replay::play(stage, &home, &url, &south).await?;

    stage.title("South stops.")?;
    stage.stop().await
}

/// A contact of south's vouches for the stranger, and takes its word back.
async fn introduction(stage: &mut Stage, url: &str, east: &str) -> Result<(), Failure> {
    stage.title("West, whom south trusts, vouches for east. South's owner is asked, and agrees.")?;
    let west = did_of(stage, "west").await?;
    let link = stage.run(&["--as", "south", "invite", "create"]).await?;
    let claim = stage.run(&["--as", "west", "claim", link.stdout.trim()]).await?;
    claim.expect(0, "a contact", |told| !told.stdout.is_empty())?;
    let vouched = stage.run(&["--as", "west", "introduce", east, "--to", "south", "--expertise", "music"]).await?;
    let id = vouched.stdout.split_whitespace().next().unwrap_or_default().to_owned();
    vouched.expect(0, "an introduction that waits", |told| told.stdout.contains("pending"))?;
    let asked = stage.run(&["--as", "south", "requests"]).await?;
    asked.expect(0, "who is introduced, and by whom", |told| {
        told.stdout.contains(east) && told.stdout.contains(&west)
    })?;
    let accepted = stage.run(&["--as", "south", "requests", "accept", "1", "--name", "east"]).await?;
    accepted.expect(0, "that it was accepted", |told| told.stdout.starts_with("accepted"))?;

    stage.title("Now east is let in, to talk. West takes its word back, and east is refused again.")?;
    let reply = stage.run(&["--as", "east", "send", url, "thank you"]).await?;
    reply.expect(0, "THANK YOU", |told| told.stdout == "THANK YOU\n")?;
    let standing = stage.run(&["--as", "east", "trust-status", "--ask", url]).await?;
    standing.expect(0, "an introduction by west", |told| {
        told.stdout.starts_with("introduced\n") && told.stdout.contains(&west)
    })?;
    let revoked = stage.run(&["--as", "west", "introduce", "revoke", &id]).await?;
    revoked.expect(0, "the end of it", |told| told.stdout.contains("revoked"))?;
    let refused = stage.run(&["--as", "east", "send", url, "hello?"]).await?;
    refused.expect(3, "a refusal", |told| told.stderr.contains("-3201"))
}

async fn did_of(stage: &mut Stage, name: &str) -> Result<String, Failure> {
    let made = stage.run(&["keygen", name]).await?;
    let did = made.stdout.split_whitespace().find(|word| word.starts_with("did:key:")).map(str::to_owned);
    made.expect(0, "a did:key", |_| did.is_some())?;
    Ok(did.unwrap_or_default())
}

fn is_verified_reply(told: &Told, from: &str, text: &str) -> bool {
    let Ok(sent) = serde_json::from_str::<Value>(&told.stdout) else { return false };
    let reply = &sent["reply"];
    reply["verified"] == true && reply["from"] == from && reply["text"] == text
}
