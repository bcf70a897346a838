//! The commands of README.md, as they stand there.
use std::{
    fs,
    process::{Command, Stdio},
};

use muretai_tests::{Home, binary, home};

/// What the README serves south at; the test puts a free port there.
const SERVED: &str = "http://127.0.0.1:7070";

/// The lines of the console blocks between two headings.
fn commands(from: &str, to: &str) -> Vec<String> {
    let page = fs::read_to_string(binary::workspace().join("README.md")).unwrap();
    let section = page.split(from).nth(1).unwrap_or_else(|| panic!("no {from}")).split(to).next().unwrap();
    let blocks = section.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.flat_map(str::lines).filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// What a line's comment promises: the exit code, and what is printed.
fn promise(line: &str) -> (i32, Option<&str>) {
    let comment = line.split(" # ").nth(1).unwrap_or_default();
    let word = |after: &str| comment.split(after).nth(1).and_then(|rest| rest.split([' ', ',', ':']).next());
    let code = word("exit code ").map_or(0, |code| code.parse().expect("a number after `exit code`"));
    (code, word("prints "))
}

/// Runs lines in one shell, each followed by its exit code, where `muretai` is the binary under test.
fn run(home: &Home, lines: &[String]) -> Vec<(i32, String)> {
    let script: String = lines.iter().map(|line| format!("{line}\nprintf '\\036%s\\036' $?\n")).collect();
    let path = format!("{}:{}", binary::path().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env_clear().env("PATH", path);
    command.env("MURETAI_HOME", home.root()).env("HOME", home.scratch());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = home::finish(command, b"").ok();
    let pieces: Vec<&str> = done.out.split('\u{1e}').collect();
    assert_eq!(pieces.len(), 2 * lines.len() + 1, "{}\n{}", done.out, done.err);
    pieces.chunks_exact(2).map(|piece| (piece[1].parse().unwrap(), piece[0].to_owned())).collect()
}

#[test]
fn the_commands_do_what_the_readme_says() {
    let home = Home::new();
    let mut lines = commands("## Five minutes", "## How strangers get in");
    lines.extend(commands("## How strangers get in", "## Relays"));
    let at = lines.iter().position(|line| line.trim_end().ends_with('&')).expect("the README serves south");
    let rest = lines.split_off(at);
    let check = |lines: &[String]| {
        for (line, (code, out)) in lines.iter().zip(run(&home, lines)) {
            let (expected, printed) = promise(line);
            assert_eq!(code, expected, "{line}\n{out}");
            assert!(printed.is_none_or(|word| out.lines().any(|line| line.starts_with(word))), "{line}\n{out}");
        }
    };
    check(&lines);
    let serve = home.serve("south", &["--reply-with", "tr a-z A-Z"]);
    let rest: Vec<String> = rest[1..].iter().map(|line| line.replace(SERVED, &serve.url)).collect();
    check(&rest);
}
