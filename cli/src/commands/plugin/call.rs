//! `muretai plugin call`: one call, for authors.

use std::path::PathBuf;

use muretai_plugins::{
    contract::{PolicyAnswer, SkillAnswer},
    engine::{CallKind, MAX_DOCUMENT_BYTES, PluginFault},
    manifest::Kind,
    native::Stderr,
    set,
};
use muretai_protocol::json::{self, Value};
use serde_json::value::RawValue;

use super::{Meant, add, host, meant};
use crate::{context::Context, failure::Failure, people, stdin};

/// Send a plugin one request, and print its answer
///
/// For authors: the plugin is started, called once as an agent calls it, and ended. REQUEST is JSON, as plugins/README.md
/// describes it. The answer is printed as it is; one that a plugin must not give is then an error. What a native plugin
/// writes to its standard error is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai plugin call ./libunits.so '{\"op\":\"skill\",\"skill\":\"units\",\"text\":\"3 mi in km\",…}'\n\
\x20 muretai plugin call office-hours - < request.json")]
pub(crate) struct Args {
    /// A file, or the name of a plugin that was added
    #[arg(value_name = "PATH|NAME")]
    plugin: String,
    /// The request; `-` reads standard input
    request: String,
    /// Its configuration: a file that ends in .json or .toml, or `-` for JSON on standard input
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Failure> {
    let host = host()?;
    let attempt = format!("cannot call {}", people::shown(&args.plugin));
    let request = request(args)?;
    let is_policy = request.member("op").and_then(Value::as_str) == Some("policy");
    let config = args.config.as_deref().map(add::config).transpose()?;
    let (kind, file, config, limits) = match meant(context, &args.plugin)? {
        Meant::Added(entry, file) => (entry.kind, file, config.unwrap_or(entry.config), entry.limits),
        Meant::File(file) => {
            let kind = Kind::of(&file.bytes);
            (kind, file, config.unwrap_or_default(), kind.default_limits())
        }
    };
    super::warn_of(context, kind);
    let failed = |fault: PluginFault| Failure::of(attempt.as_str(), &fault);
    let engine = set::engine(kind, &file, &Value::Object(config), limits, &host, Stderr::Ours).await.map_err(failed)?;
    let (kind, timeout) = match is_policy {
        true => (CallKind::Policy, limits.policy_timeout),
        false => (CallKind::Skill, limits.skill_timeout),
    };
    let answer = engine.call(kind, request.to_json().as_bytes(), timeout).await;
    engine.close().await;
    let answer = answer.map_err(failed)?;
    match serde_json::from_slice::<&RawValue>(&answer) {
        Ok(json) if context.out.is_json => context.out.json(&json)?,
        _ => context.out.text(&muretai_protocol::text::body(&String::from_utf8_lossy(&answer)))?,
    }
    let judged = match is_policy {
        true => PolicyAnswer::parse(&answer).map(drop),
        false => SkillAnswer::parse(&answer).map(drop),
    };
    judged.map_err(failed)
}

fn request(args: &Args) -> Result<Value, Failure> {
    let text = match args.request.as_str() {
        "-" => stdin::text(stdin::take("the request")?, MAX_DOCUMENT_BYTES, "cannot read the request")?,
        text => text.to_owned(),
    };
    match json::parse(text.trim().as_bytes()) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Failure::usage("the request is no JSON object")),
        Err(error) => Err(Failure::usage(format!("the request is no JSON: {error}"))),
    }
}
