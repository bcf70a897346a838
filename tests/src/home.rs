//! A home folder of its own, and commands run in it.
use std::{
    ffi::OsStr,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Instant,
};

use serde_json::Value;

use crate::{Serve, binary, rpc::Key, wait};

/// A temporary `$MURETAI_HOME`, gone when dropped.
pub struct Home {
    folder: tempfile::TempDir,
    root: PathBuf,
}

impl Default for Home {
    fn default() -> Self {
        Home::new()
    }
}

impl Home {
    /// An empty home.
    pub fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("home");
        Home { folder, root }
    }

    /// A home at another place, such as a small file system; a temporary `$HOME` all the same.
    pub fn at(root: &Path) -> Home {
        Home { folder: tempfile::tempdir().unwrap(), root: root.to_owned() }
    }

    /// A home with one agent of this name.
    pub fn with_agent(name: &str) -> Home {
        let home = Home::new();
        home.run(["keygen", name]).ok();
        home
    }

    /// `$MURETAI_HOME`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder beside the home, for files of the test.
    pub fn scratch(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of an agent.
    pub fn agent(&self, name: &str) -> PathBuf {
        self.root.join("agents").join(name)
    }

    /// A command in this home: cleared environment, no stdin.
    pub fn command<I, S>(&self, args: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = Command::new(binary::path());
        command.args(args).env_clear().current_dir(self.folder.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("MURETAI_HOME", &self.root).env("HOME", self.folder.path());
        // Coverage builds name their output by this variable.
        if let Some(profile) = std::env::var_os("LLVM_PROFILE_FILE") {
            command.env("LLVM_PROFILE_FILE", profile);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub fn run<I, S>(&self, args: I) -> Done
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        finish(self.command(args), b"")
    }

    /// Runs a command with this on its stdin.
    pub fn run_with<I, S>(&self, args: I, stdin: &[u8]) -> Done
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        finish(command, stdin)
    }

    /// Starts `muretai --as NAME serve --listen 127.0.0.1:0 ARGS`.
    pub fn serve(&self, name: &str, args: &[&str]) -> Serve {
        Serve::start(self, name, args)
    }

    /// Starts `muretai --as NAME serve --no-http --relay URL ARGS`: nothing but a listener of its mailbox.
    pub fn listener(&self, name: &str, relay: &str, args: &[&str]) -> crate::resident::Resident {
        let mut command = self.command(["--as", name, "serve", "--no-http", "--relay", relay]);
        command.args(args);
        let mut process = crate::resident::Resident::spawn("the listener", command);
        process.first_line().unwrap_or_else(|err| panic!("the listener did not start: {err}"));
        process
    }

    /// The DID of an agent, as `identity show --json` has it.
    pub fn did(&self, name: &str) -> String {
        let shown = self.run(["--as", name, "identity", "show", "--json"]).ok().json();
        shown["did"].as_str().expect("identity show --json has a did").to_owned()
    }

    /// All messages of `inbox --json`, oldest first.
    pub fn inbox(&self, name: &str) -> Vec<Value> {
        self.run(["--as", name, "inbox", "--json", "-n", "0"]).ok().json_lines()
    }

    /// Makes a known agent out of a seed, by its recovery phrase.
    pub fn restore(&self, name: &str, key: &Key) -> Done {
        self.run_with(["keygen", name, "--restore"], key.phrase().as_bytes())
    }

    /// An invite of one agent of this home, as `invite create --json` has it.
    pub fn invite(&self, name: &str) -> Value {
        self.run(["--as", name, "invite", "create", "--json"]).ok().json()
    }

    /// Changes the database of an agent by hand, for what takes days otherwise; gives how many rows changed.
    pub fn sql(&self, name: &str, statement: &str) -> u64 {
        use sqlx::{Connection, Executor, SqliteConnection, sqlite::SqliteConnectOptions};
        let options = SqliteConnectOptions::new().filename(self.agent(name).join("agent.db"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut conn = SqliteConnection::connect_with(&options.busy_timeout(wait::PATIENCE)).await.unwrap();
            let done = conn.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned()))).await.unwrap();
            conn.close().await.unwrap();
            done.rows_affected()
        })
    }

    /// How often each message id came in, by the database of an agent, without a process for it.
    pub fn received(&self, name: &str) -> std::collections::HashMap<String, usize> {
        use sqlx::Row;
        let statement = "SELECT message_id, count(*) FROM messages WHERE direction = 0 GROUP BY message_id";
        let row = |row: &sqlx::sqlite::SqliteRow| (row.get(0), row.get::<i64, _>(1) as usize);
        query(&self.agent(name).join("agent.db"), statement, row).into_iter().collect()
    }

    /// The path of a file in the scratch folder, with this content.
    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

/// Reads rows of a SQLite file that another process has open.
pub fn query<T>(file: &Path, statement: &str, read: impl Fn(&sqlx::sqlite::SqliteRow) -> T) -> Vec<T> {
    use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
    let options = SqliteConnectOptions::new().filename(file).busy_timeout(wait::PATIENCE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut conn = SqliteConnection::connect_with(&options).await.unwrap();
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement.to_owned())).fetch_all(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        rows.iter().map(read).collect()
    })
}

/// A command that ended.
#[derive(Debug)]
pub struct Done {
    /// The exit code; 128 + N for signal N.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it said beside it.
    pub err: String,
}

impl Done {
    /// Fails the test unless the exit code is 0.
    #[track_caller]
    pub fn ok(self) -> Done {
        self.exits(0)
    }

    /// Fails the test unless this is the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Done {
        assert_eq!(self.code, code, "exit code\nstdout: {}\nstderr: {}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "it panicked: {}", self.err);
        self
    }

    /// stdout as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("stdout is not JSON: {error}: {:?}", self.out))
    }

    /// stdout as one JSON document per line.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        self.out.lines().map(parse).collect()
    }

    /// The error line that a failed command prints under `--json`.
    #[track_caller]
    pub fn json_error(&self) -> Value {
        let line = self.err.lines().last().unwrap_or_default();
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {:?}", self.err));
        assert!(value["error"].is_string(), "the error line names the error: {line}");
        value
    }
}

/// Feeds stdin, waits with a deadline, collects both streams.
pub fn finish(mut command: Command, stdin: &[u8]) -> Done {
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let writer = child.stdin.take().map(|mut pipe| {
        let bytes = stdin.to_owned();
        // A command that does not read its stdin is no fault of the test.
        std::thread::spawn(move || _ = pipe.write_all(&bytes))
    });
    let watched = watch(&child, &format!("{command:?}"));
    let output = child.wait_with_output().unwrap();
    drop(watched);
    if let Some(writer) = writer {
        writer.join().unwrap();
    }
    done(&output)
}

fn done(output: &Output) -> Done {
    use std::os::unix::process::ExitStatusExt;
    Done {
        code: output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0)),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Ends a child that runs past [`wait::PATIENCE`], so that a hanging command fails its test instead of the whole run.
fn watch(child: &Child, what: &str) -> std::sync::mpsc::Sender<()> {
    let (stop, stopped) = std::sync::mpsc::channel();
    let (pid, what, start) = (child.id(), what.to_owned(), Instant::now());
    std::thread::spawn(move || {
        if stopped.recv_timeout(wait::PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{what} still runs after {:?}: killed", start.elapsed());
            kill(pid, "KILL");
        }
    });
    stop
}

/// Sends a signal to a process of this test, by its id.
pub fn kill(pid: u32, signal: &str) {
    _ = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).stderr(Stdio::null()).status();
}
