//! Native plugins that misbehave in every way: the fault is the right one, the host goes on, and the next call works.
//! The fixtures are C, compiled by the test.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs)]

#[path = "native/both.rs"]
mod both;
#[path = "native/bounds.rs"]
mod bounds;
#[path = "native/examples.rs"]
mod examples;
#[path = "native/faults.rs"]
mod faults;
#[path = "native/fixture.rs"]
mod fixture;
#[path = "native/json.rs"]
mod json;
#[path = "native/lifetime.rs"]
mod lifetime;
#[path = "native/loading.rs"]
mod loading;
