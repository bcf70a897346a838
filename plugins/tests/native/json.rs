//! `muretai_json.h` against serde_json, under the address sanitiser where the compiler has it.
use std::{
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use serde_json::Value;

use crate::fixture::{compiler, folder};

/// As deep as the header reads.
const MAX_DEPTH: usize = 64;

struct Harness {
    _folder: tempfile::TempDir,
    program: PathBuf,
}

impl Harness {
    fn new() -> Option<Harness> {
        let out = tempfile::tempdir().unwrap();
        let program = out.path().join("harness");
        let compile = |flags: &[&str]| {
            let mut command = compiler("json_harness.c")?;
            command.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O1"]).args(flags);
            command.arg("-I").arg(folder()).arg("-o").arg(&program);
            Some(command.arg(folder().join("tests/fixtures/json_harness.c")).output().unwrap())
        };
        let sanitised = compile(&["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])?;
        if !sanitised.status.success() {
            let plain = compile(&[])?;
            assert!(plain.status.success(), "{}", String::from_utf8_lossy(&plain.stderr));
        }
        Some(Harness { _folder: out, program })
    }

    /// What the header makes of each document: `None` when it says malformed.
    fn run(&self, documents: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = Vec::new();
        for document in documents {
            input.extend_from_slice(&(document.len() as u32).to_ne_bytes());
            input.extend_from_slice(document);
        }
        let mut stdin = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        writer.join().unwrap().unwrap();
        let mut rest = &output[..];
        let answers = documents.iter().map(|_| {
            let (len, behind) = rest.split_first_chunk::<4>().unwrap();
            let (answer, behind) = behind.split_at(u32::from_ne_bytes(*len) as usize);
            rest = behind;
            (answer != b"-").then(|| answer.to_vec())
        });
        answers.collect()
    }

    fn check(&self, documents: &[Vec<u8>]) {
        for (document, answer) in documents.iter().zip(self.run(documents)) {
            let expected: Option<Value> =
                serde_json::from_slice(document).ok().filter(|value| depth(value) <= MAX_DEPTH);
            let shown = String::from_utf8_lossy(document);
            match (expected, answer) {
                (None, None) => {}
                // A number may be beyond what serde_json holds.
                (None, Some(_)) if has_huge_number(document) => {}
                (Some(value), Some(answer)) => {
                    let again: Value =
                        serde_json::from_slice(&answer).unwrap_or_else(|error| panic!("{shown}: {error}"));
                    // The header has whole numbers, of which -0 is 0.
                    assert!(again == value || shown.contains("-0"), "{shown}: {again}");
                }
                (expected, answer) => panic!("{shown}: expected {expected:?}, got {answer:?}"),
            }
        }
    }
}

fn has_huge_number(document: &[u8]) -> bool {
    serde_json::from_slice::<Value>(document).is_err_and(|error| error.to_string().contains("number out of range"))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[test]
fn documents_that_try_the_edges() {
    let Some(harness) = Harness::new() else { return };
    let mut documents: Vec<Vec<u8>> = [
        "",
        " ",
        "null",
        " null ",
        "nul",
        "nullx",
        "true",
        "false",
        "tru",
        "0",
        "-0",
        "00",
        "01",
        "-",
        "1.",
        ".5",
        "1.5",
        "1e5",
        "1E+5",
        "1e",
        "1e+",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "1e400",
        "\"\"",
        "\"",
        "\"\\\"",
        "\"a\\u0041\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\ude00\"",
        "\"\\ud83dx\"",
        "\"\\ud83d\\u0041\"",
        "\"\\u00\"",
        "\"\\u00e9\\u2603\"",
        "\"\\u0000\"",
        "\"\\x\"",
        "\"\t\"",
        "\"é☃😀\"",
        "[]",
        "[ ]",
        "[1]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,2",
        "]",
        "{}",
        "{ }",
        "{\"a\":1}",
        "{\"a\":1,}",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1,\"a\":2}",
        "{\"a\" : [ {} , [] ] , \"b\":null }",
        "{]",
        "[}",
        "[[1}]",
        "{\"\":\"\"}",
        "1 1",
        "[]]",
        "{\"\\u0061\":1,\"a\":2}",
        "\u{feff}1",
        "{\"a\":{\"b\":[1,{\"c\":\"d\"}]}}",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    for broken in
        [&b"\"\xc0\x80\""[..], b"\"\xed\xa0\x80\"", b"\"\xf4\x90\x80\x80\"", b"\"\xe2\x98\"", b"\"\xff\"", b"\"\xc3"]
    {
        documents.push(broken.to_vec());
    }
    for levels in [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 100, 10_000] {
        documents.push([vec![b'['; levels], vec![b']'; levels]].concat());
        documents.push(vec![b'['; levels]);
        documents.push([b"{\"a\":".repeat(levels), b"1".to_vec(), vec![b'}'; levels]].concat());
    }
    harness.check(&documents);
}

/// Values of all kinds, some with strings that need escapes.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[\\x00-\\x7f]{0,8}|\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("\\PC{0,4}", inner), 0..6).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

#[test]
fn thousands_of_documents_whole_cut_and_changed() {
    let Some(harness) = Harness::new() else { return };
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let noise = prop::collection::vec(prop::sample::select(&b"{}[]:,\"\\u0 1-.eEtrfalsn\xc3\xa9\xff"[..]), 0..40);
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let mut documents = Vec::new();
    for _ in 0..2000 {
        let value = values().new_tree(&mut runner).unwrap().current();
        let whole = serde_json::to_vec(&value).unwrap();
        let (at, byte) = change.new_tree(&mut runner).unwrap().current();
        let cut = at.index(whole.len() + 1);
        documents.push(whole[..cut].to_vec());
        let mut changed = whole.clone();
        let at = at.index(changed.len());
        changed[at] = byte;
        documents.push(changed);
        documents.push(serde_json::to_vec_pretty(&value).unwrap());
        documents.push(whole);
        documents.push(noise.new_tree(&mut runner).unwrap().current());
    }
    harness.check(&documents);
}
