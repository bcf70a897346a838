//! Where a relay keeps its letters, as it was typed: a file, or the URL of a PostgreSQL database with a password that
//! nobody is shown.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use muretai_store::mailboxes::{self, MailboxError, Mailboxes, Quotas};
use zeroize::Zeroizing;

use crate::{failure::Failure, secret::PassphraseSource};

/// The file's place in the home.
const FOLDER: &str = "relay";
const FILE: &str = "relay.db";

/// Where a relay keeps its letters.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A SQLite file of this process alone.
    File(PathBuf),
    /// A PostgreSQL database that relay processes share; the URL may hold a password.
    Postgres(Zeroizing<String>),
}

impl Place {
    /// Reads what `--store` says; nothing means the file in the home.
    pub(super) fn read(text: Option<&str>, home: &Path) -> Result<Place, Failure> {
        match text {
            None => Ok(Place::File(home.join(FOLDER).join(FILE))),
            Some(url) if is_postgres(url) => Ok(Place::Postgres(Zeroizing::new(url.to_owned()))),
            Some(url) if url.contains("://") => {
                let scheme = url.split("://").next().unwrap_or_default();
                Err(Failure::usage(format!("cannot keep letters in a {scheme} store"))
                    .hint("--store takes a file, or a URL that begins with postgres://"))
            }
            Some(path) => Ok(Place::File(PathBuf::from(path))),
        }
    }

    /// The same with the password that a file holds.
    pub(super) fn with_password_of(self, file: Option<&Path>) -> Result<Place, Failure> {
        let Some(file) = file else { return Ok(self) };
        let Place::Postgres(url) = self else {
            return Err(Failure::usage("--store-password-file is for a store at postgres://; a file has no password"));
        };
        let (before, user, place) = parts(&url);
        let user = user.unwrap_or_default();
        if user.contains(':') {
            return Err(Failure::usage("two passwords are given: in --store, and with --store-password-file"));
        }
        let password = PassphraseSource::file(file.to_owned()).read_as("the password of the database")?;
        let escaped = Zeroizing::new(percent_encoded(&password));
        Ok(Place::Postgres(Zeroizing::new(format!("{before}{user}:{}@{place}", *escaped))))
    }

    /// The place without the password, and without the options behind it, which may hold one too.
    pub(super) fn shown(&self) -> String {
        match self {
            Place::File(path) => path.display().to_string(),
            Place::Postgres(url) => {
                let (before, user, place) = parts(url);
                let user = user.map(|user| format!("{}@", user.split(':').next().unwrap_or_default()));
                let place = place.split(['?', '#']).next().unwrap_or_default();
                format!("{before}{}{place}", user.unwrap_or_default())
            }
        }
    }

    /// Opens the store. A file that is not there is made, with its folder, for its owner alone.
    pub(super) async fn open(&self, quotas: Quotas) -> Result<Box<dyn Mailboxes>, Failure> {
        let attempt = format!("cannot use the store at {}", self.shown());
        let opened = match self {
            Place::File(path) => {
                make_folder(path).map_err(|error| Failure::io(attempt.as_str(), &error))?;
                mailboxes::open_sqlite(path, quotas).await
            }
            Place::Postgres(url) => mailboxes::open_postgres(url, quotas).await,
        };
        opened.map_err(|error| match error {
            // Its own words quote the URL, and with it the password.
            MailboxError::BadUrl(_) => Failure::usage(format!("{attempt}: that names no database"))
                .hint("write it as postgres://USER@HOST/DATABASE; the password comes from PGPASSWORD or --store-password-file"),
            error => Failure::of(attempt, &error),
        })
    }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Scheme with its slashes, user part, and what follows: hosts, database, options.
fn parts(url: &str) -> (&str, Option<&str>, &str) {
    let at = url.find("://").map_or(0, |at| at + 3);
    let (before, rest) = url.split_at(at);
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    match authority.rfind('@') {
        Some(end) => (before, Some(&rest[..end]), &rest[end + 1..]),
        None => (before, None, rest),
    }
}

/// A password as the user part of a URL holds it.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn make_folder(file: &Path) -> io::Result<()> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        Place::read(Some(text), Path::new("home")).ok().unwrap()
    }

    #[test]
    fn without_a_word_letters_are_kept_in_the_home() {
        assert_eq!(Place::read(None, Path::new("home")).ok().unwrap().shown(), "home/relay/relay.db");
        assert_eq!(place("a b?x#y.db").shown(), "a b?x#y.db");
        assert!(Place::read(Some("mysql://x"), Path::new("home")).is_err());
    }

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://south:s3cret@db.example:5432/relay?sslmode=require", "postgres://south@db.example:5432/relay"),
            ("postgresql://db.example/relay?user=south&password=s3cret", "postgresql://db.example/relay"),
            ("postgres://s:s3cret@cr@et@[::1]/relay", "postgres://s@[::1]/relay"),
            ("postgres:///relay?host=/run/postgresql", "postgres:///relay"),
            ("postgres://south@db.example", "postgres://south@db.example"),
        ] {
            assert_eq!(place(url).shown(), shown);
        }
    }

    #[test]
    fn a_password_of_a_file_gets_into_the_url_unharmed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        fs::write(&file, "p@:/ä%\n").unwrap();
        let with = |url: &str| place(url).with_password_of(Some(&file));
        let Ok(Place::Postgres(url)) = with("postgres://south@db.example/relay") else { panic!("it has a password") };
        assert_eq!(*url, "postgres://south:p%40%3A%2F%C3%A4%25@db.example/relay");
        assert!(with("postgres://south:other@db.example/relay").is_err());
        assert!(with("relay.db").is_err());
    }
}
