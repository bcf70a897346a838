//! Where the tour plays: a temporary home, the processes that run in it, and how they are told.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::Serialize;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    env,
    failure::Failure,
    output::{DIM, Output, STRONG, paint},
    shell,
};

/// How long one command may take; none needs more than a fraction of it.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// What the answering command of the tour needs.
const NEEDED: [&str; 2] = ["sh", "tr"];
/// How long the service may take to finish after SIGTERM before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// The stage. Dropping it kills what still runs and removes the home.
pub(super) struct Stage {
    out: Output,
    program: PathBuf,
    home: TempDir,
    service: Option<Child>,
}

/// What a command told.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    /// What was typed; `null` for a request that the tour put on the wire itself.
    pub(super) command: Option<String>,
    /// What was put on the wire; `null` for a command.
    pub(super) request: Option<String>,
    /// How the command ended; `null` for a request.
    pub(super) exit: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Told {
    fn of_command(command: String, exit: i32, stdout: String, stderr: String) -> Told {
        Told { command: Some(command), request: None, exit: Some(exit), stdout, stderr }
    }
    /// A request and what came back.
    pub(super) fn of_request(request: String, answer: String) -> Told {
        Told { command: None, request: Some(request), exit: None, stdout: answer, stderr: String::new() }
    }
    /// Ends the tour unless the command ended and told as it should.
    pub(super) fn expect(&self, exit: i32, what: &str, is_right: impl FnOnce(&Told) -> bool) -> Result<(), Failure> {
        match self.exit {
            Some(ended) if ended != exit => Err(self.broke(&format!("exit {ended}, not {exit} with {what}"))),
            _ => self.expect_answer(what, is_right),
        }
    }
    /// Ends the tour unless what came back is right.
    pub(super) fn expect_answer(&self, what: &str, is_right: impl FnOnce(&Told) -> bool) -> Result<(), Failure> {
        if is_right(self) { Ok(()) } else { Err(self.broke(&format!("it did not show {what}"))) }
    }
    fn broke(&self, why: &str) -> Failure {
        let step = self.command.as_ref().or(self.request.as_ref()).map_or("", String::as_str);
        Failure::failed(format!("the tour broke at `{step}`: {why}")).hint("please report this with the output above")
    }
}

impl Stage {
    /// Makes the temporary home.
    pub(super) fn set(out: Output) -> Result<Stage, Failure> {
        let attempt = "cannot set up the tour";
        if let Some(missing) = NEEDED.into_iter().find(|program| !is_on_path(program)) {
            let message = format!("{attempt}: the command `{missing}`, which answers in it, is not on the PATH");
            return Err(Failure::failed(message).hint("add its folder, often /usr/bin, to PATH"));
        }
        let program = std::env::current_exe().map_err(|error| Failure::io(attempt, &error))?;
        let home = tempfile::Builder::new().prefix("muretai-tour-").tempdir();
        Ok(Stage { out, program, home: home.map_err(|error| Failure::io(attempt, &error))?, service: None })
    }
    /// The home.
    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }
    /// Says what comes next.
    pub(super) fn title(&self, title: &str) -> Result<(), Failure> {
        if self.out.is_json { Ok(()) } else { self.out.text(&format!("\n{}", paint(STRONG, title))) }
    }
    /// Runs one command to its end and shows what it told.
    pub(super) async fn run(&self, args: &[&str]) -> Result<Told, Failure> {
        let command = spelled(args);
        self.show_command(&command)?;
        let attempt = format!("the tour broke at `{command}`");
        let ended = tokio::time::timeout(STEP_TIMEOUT, self.command(args).output()).await;
        let output = ended
            .map_err(|_| Failure::failed(format!("{attempt}: it took longer than {} s", STEP_TIMEOUT.as_secs())))?
            .map_err(|error| Failure::io(attempt, &error))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let exit = output.status.code().unwrap_or(-1);
        let told = Told::of_command(command, exit, text(&output.stdout), text(&output.stderr));
        self.show(&told)?;
        Ok(told)
    }
    /// Starts the service and gives the address that it printed first.
    pub(super) async fn serve(&mut self, name: &str, args: &[&str]) -> Result<String, Failure> {
        let args = [&["--as", name], args].concat();
        let command = spelled(&args);
        self.show_command(&format!("{command} &"))?;
        let attempt = format!("the tour broke at `{command}`");
        let log_path = self.home().join("serve.log");
        let log = File::create(&log_path).map_err(|error| Failure::io(attempt.as_str(), &error))?;
        let mut child = self
            .command(&args)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| Failure::io(attempt.as_str(), &error))?;
        let stdout = child.stdout.take().expect("it is piped");
        self.service = Some(child);
        let first = tokio::time::timeout(STEP_TIMEOUT, BufReader::new(stdout).lines().next_line()).await;
        match first {
            Ok(Ok(Some(url))) => {
                let told = Told::of_command(command, 0, format!("{url}\n"), String::new());
                self.show(&told)?;
                Ok(url)
            }
            _ => {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                Err(Failure::failed(format!("{attempt}: it printed no address: {}", log.trim())))
            }
        }
    }
    /// Stops the service with SIGTERM and expects that it ends well.
    pub(super) async fn stop(&mut self) -> Result<(), Failure> {
        let Some(child) = &mut self.service else { return Ok(()) };
        let Some(pid) = child.id() else { return Ok(()) };
        let command = format!("kill {pid}");
        terminate(child, pid)?;
        let ended = tokio::time::timeout(STOP_TIMEOUT, child.wait()).await;
        self.show_command(&command)?;
        let exit = match ended {
            Ok(Ok(status)) => status.code().unwrap_or(-1),
            _ => -1,
        };
        let told = Told::of_command(command, exit, String::new(), String::new());
        self.show(&told)?;
        told.expect(0, "a graceful end", |_| true)
    }
    /// Kills what still runs and removes the home.
    pub(super) async fn clear(mut self) -> Result<(), Failure> {
        if let Some(child) = &mut self.service {
            // It may have ended already, which is what is wanted.
            let _ = child.kill().await;
        }
        self.home.close().map_err(|error| Failure::io("cannot remove the home of the tour", &error))
    }

    /// Says what is done without a command.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        if self.out.is_json { Ok(()) } else { self.out.text(text) }
    }
    /// Shows what is done next.
    pub(super) fn show_command(&self, command: &str) -> Result<(), Failure> {
        if self.out.is_json { Ok(()) } else { self.out.text(&paint(STRONG, &format!("$ {command}"))) }
    }
    /// Shows what came back.
    pub(super) fn show(&self, told: &Told) -> Result<(), Failure> {
        if self.out.is_json {
            return self.out.json(told);
        }
        let mut shown = told.stdout.trim_end().to_owned();
        for line in told.stderr.trim().lines() {
            shown.push_str(&format!("{}{}", if shown.is_empty() { "" } else { "\n" }, paint(DIM, line)));
        }
        if let Some(exit) = told.exit.filter(|exit| *exit != 0) {
            shown.push_str(&format!("\n{}", paint(DIM, &format!("(exit {exit})"))));
        }
        if shown.is_empty() { Ok(()) } else { self.out.text(&shown) }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .env(env::MURETAI_HOME, self.home())
            .env_remove(env::MURETAI_AS)
            .env_remove(env::MURETAI_PASSPHRASE_FILE)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }
}

fn terminate(child: &mut Child, pid: u32) -> Result<(), Failure> {
    #[cfg(unix)]
    {
        let _ = child;
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).expect("a child has a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .map_err(|error| Failure::io("cannot stop the service of the tour", &error))
    }
    #[cfg(not(unix))]
    {
        let _ = pid;
        child.start_kill().map_err(|error| Failure::io("cannot stop the service of the tour", &error))
    }
}

/// Whether the shell would find a program. Without a PATH it looks in places of its own.
fn is_on_path(program: &str) -> bool {
    let Some(path) = env::value(env::PATH) else { return true };
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A command line as a person would type it.
fn spelled(args: &[&str]) -> String {
    let words: Vec<String> = args.iter().map(|word| shell::quoted(word)).collect();
    format!("muretai {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_spelled_as_a_person_types_them() {
        assert_eq!(
            spelled(&["--as", "south", "serve", "--reply-with", "tr a-z A-Z"]),
            "muretai --as south serve --reply-with 'tr a-z A-Z'"
        );
    }
}
