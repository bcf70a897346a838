//! What `-v` shows, and what a service logs without it. Only our own crates are heard, so that no library can log a
//! message body or a secret.

use std::{error::Error, fmt::Debug, io};

use muretai_node::agent;
use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer, filter::Targets, fmt, layer::Context, layer::SubscriberExt, registry::LookupSpan, util::SubscriberInitExt,
};

use crate::{output::Output, wire};

const CRATES: [&str; 7] = [
    "muretai",
    "muretai_node",
    "muretai_plugins",
    "muretai_protocol",
    "muretai_relay",
    "muretai_store",
    "muretai_transports",
];

/// Sends log lines to stderr, as JSON with `--json`. Without `-v` only a service logs, and not with `--quiet`; nothing
/// is set up otherwise.
pub(crate) fn start(out: &Output, verbosity: u8, is_service: bool) {
    let level = match (verbosity, is_service && !out.is_quiet) {
        (0, false) => return,
        (0, true) | (1, _) => LevelFilter::INFO,
        (2, _) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let ours = CRATES.into_iter().fold(Targets::new(), |targets, name| targets.with_target(name, level));
    let registry = tracing_subscriber::registry().with(ours);
    // A second subscriber in one process would be a mistake of ours that costs log lines, not work.
    let _ = if out.is_json {
        registry.with(JsonLines(*out)).try_init()
    } else {
        let lines = fmt::layer().with_writer(io::stderr).with_ansi(out.has_color()).with_target(verbosity > 0);
        registry.with(lines).try_init()
    };
}

/// One JSON object per event: `time`, `level`, `target`, `message`, and the fields of the event.
struct JsonLines(Output);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut line = Fields(Map::new());
        line.0.insert("time".to_owned(), wire::time(agent::now()).into());
        line.0.insert("level".to_owned(), event.metadata().level().as_str().to_ascii_lowercase().into());
        line.0.insert("target".to_owned(), event.metadata().target().into());
        event.record(&mut line);
        self.0.json_line(&Value::Object(line.0).to_string());
    }
}

struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        let mut told = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            told.push_str(&format!(": {cause}"));
            next = cause.source();
        }
        self.put(field, told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the fields of the one event that is recorded while it listens.
    struct Heard(std::sync::Mutex<Option<Map<String, Value>>>);

    impl<S: Subscriber> Layer<S> for &'static Heard {
        fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
            let mut fields = Fields(Map::new());
            event.record(&mut fields);
            *self.0.lock().unwrap() = Some(fields.0);
        }
    }

    #[test]
    fn fields_keep_their_kind_and_errors_their_causes() {
        static HEARD: Heard = Heard(std::sync::Mutex::new(None));
        let failed = muretai_node::home::HomeError::Io { path: "x".into(), source: io::Error::other("no disk") };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(&HEARD), || {
            tracing::info!(code = -5, from = "a\nb", error = &failed as &dyn Error, "refused");
        });
        let fields = HEARD.0.lock().unwrap().take().unwrap();
        assert_eq!(fields["code"], -5);
        assert_eq!(fields["from"], "a\nb");
        assert_eq!(fields["error"], "cannot use x: no disk");
        assert_eq!(fields["message"], "refused");
    }
}
