//! Skeletons for authors of plugins: each builds, has a test, and brings what it needs of muretai with it.
use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::contract::is_name;

/// What a skeleton is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// A native skill, with the authors' crate beside it.
    Rust,
    /// A native skill, with the C headers beside it.
    C,
    /// A trust policy in C for the sandbox.
    Wasm,
}

/// Why a skeleton was not written. Nothing of it is left then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewError {
    /// Not the name of a plugin.
    #[error("{0:?} is no name for a plugin: 1 to 32 of a-z 0-9 -, not beginning with -")]
    BadName(String),
    /// Cargo takes no such name.
    #[error("{0} begins with a digit, which no Rust package does")]
    Digit(String),
    /// Something is there.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The file system said no.
    #[error("cannot make {}", .path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Where a file goes, and its text before the names are put in.
type File = (&'static str, &'static str);

const PLUGIN_H: File = ("muretai_plugin.h", include_str!("../muretai_plugin.h"));
const JSON_H: File = ("muretai_json.h", include_str!("../muretai_json.h"));
const WASM_H: File = ("muretai_wasm.h", include_str!("../muretai_wasm.h"));

const C: [File; 6] = [
    ("README.md", include_str!("../templates/c/README.md")),
    ("Makefile", include_str!("../templates/c/Makefile")),
    ("plugin.c", include_str!("../templates/c/plugin.c")),
    ("test.sh", include_str!("../templates/c/test.sh")),
    PLUGIN_H,
    JSON_H,
];

const WASM: [File; 7] = [
    ("README.md", include_str!("../templates/wasm/README.md")),
    ("Makefile", include_str!("../templates/wasm/Makefile")),
    ("config.json", include_str!("../templates/wasm/config.json")),
    ("plugin.c", include_str!("../templates/wasm/plugin.c")),
    ("test.sh", include_str!("../templates/wasm/test.sh")),
    WASM_H,
    JSON_H,
];

macro_rules! sdk {
    ($($file:literal),* $(,)?) => {
        [$((concat!("vendor/muretai-plugin/src/", $file), include_str!(concat!("../sdk/src/", $file)))),*]
    };
}

const SDK: [File; 7] = sdk!["abi.rs", "border.rs", "decode.rs", "encode.rs", "lib.rs", "testing.rs", "types.rs"];

const RUST: [File; 5] = [
    ("README.md", include_str!("../templates/rust/README.md")),
    (".gitignore", include_str!("../templates/rust/gitignore")),
    ("Cargo.toml", include_str!("../templates/rust/Cargo.toml")),
    ("src/lib.rs", include_str!("../templates/rust/src/lib.rs")),
    ("vendor/muretai-plugin/Cargo.toml", include_str!("../templates/rust/sdk.toml")),
];

/// Writes a skeleton into a folder that is not there, or empty, and returns its files. All of it or nothing.
pub fn write(language: Language, name: &str, folder: &Path) -> Result<Vec<String>, NewError> {
    if !is_name(name) {
        return Err(NewError::BadName(name.chars().take(100).collect()));
    }
    if language == Language::Rust && name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(NewError::Digit(name.to_owned()));
    }
    let at = |path: &Path, source| NewError::Io { path: path.to_owned(), source };
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => return Err(NewError::NotEmpty(folder.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(folder, error)),
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|error| at(parent, error))?;
    let new = new_folder(parent).map_err(|error| at(folder, error))?;
    let mut written = Vec::new();
    for (file, text) in files(language) {
        let path = new.path().join(file);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, filled(text, language, name)))
            .map_err(|error| at(&folder.join(file), error))?;
        written.push(file.to_owned());
    }
    // A folder takes the place of an empty one in one step.
    fs::rename(new.path(), folder).map_err(|error| at(folder, error))?;
    let _ = new.keep();
    written.sort();
    Ok(written)
}

/// A folder beside the one that is meant, removed again unless it is kept.
fn new_folder(parent: &Path) -> io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".muretai-plugin-");
    // As any other new folder, not as a secret one.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    builder.tempdir_in(parent)
}

fn files(language: Language) -> Vec<File> {
    match language {
        Language::Rust => RUST.into_iter().chain(SDK).collect(),
        Language::C => C.to_vec(),
        Language::Wasm => WASM.to_vec(),
    }
}

fn filled(text: &str, language: Language, name: &str) -> String {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = match language {
        Language::Rust => format!("{prefix}{}{suffix}", name.replace('-', "_")),
        Language::C => format!("{prefix}{name}{suffix}"),
        Language::Wasm => format!("{name}.wasm"),
    };
    text.replace("{{name}}", name).replace("{{file}}", &file).replace("{{version}}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_all_or_nothing_and_never_into_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        for language in [Language::Rust, Language::C, Language::Wasm] {
            let folder = home.path().join(format!("a/{language:?}"));
            let files = write(language, "word-count", &folder).unwrap();
            for file in &files {
                let text = fs::read_to_string(folder.join(file)).unwrap();
                assert!(!text.contains("{{"), "{file}: {text}");
            }
            assert!(files.iter().any(|file| file == "README.md"));
            assert!(matches!(write(language, "word-count", &folder), Err(NewError::NotEmpty(_))));
        }
        let empty = home.path().join("empty");
        fs::create_dir(&empty).unwrap();
        write(Language::C, "x", &empty).unwrap();
        assert!(matches!(write(Language::C, "No", &home.path().join("b")), Err(NewError::BadName(_))));
        assert!(matches!(write(Language::Rust, "7up", &home.path().join("b")), Err(NewError::Digit(_))));
        assert!(!home.path().join("b").exists());
        assert!(
            fs::read_dir(home.path())
                .unwrap()
                .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with('.') })
        );
    }

    #[test]
    fn the_authors_crate_goes_along_whole() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk/src");
        let mut there: Vec<_> = fs::read_dir(sources)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".rs"))
            .map(|name| format!("vendor/muretai-plugin/src/{name}"))
            .collect();
        there.sort();
        assert_eq!(there, SDK.map(|(file, _)| file));
    }
}
