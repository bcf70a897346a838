//! placeholder
use crate::{context::Context, exit::Exit, failure::Failure};
/// Not yet
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}
pub(crate) fn run(_: &Context, _: &Args) -> Result<Exit, Failure> {
    Ok(Exit::Done)
}
