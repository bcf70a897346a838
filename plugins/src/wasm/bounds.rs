//! What a module may be made of, looked at before it is compiled.
//!
//! A compiler takes more than linear time and memory for some functions, and it cannot be interrupted. These bounds
//! keep what a hostile module can make it do within a minute and half a gigabyte; what compilers make stays far below.
use wasmparser::{BinaryReaderError, CompositeInnerType, FunctionBody, Operator, Parser, Payload, TypeSectionReader};

use super::MAX_MODULE_BYTES;
use crate::engine::PluginFault;

/// Items of a section: types, functions, globals, segments.
const MAX_ITEMS: u32 = 20_000;
/// Bytes of one function.
const MAX_FUNCTION_BYTES: usize = 131_072;
/// Bytes of all functions.
const MAX_CODE_BYTES: usize = 4 * 1_048_576;
/// Local variables of one function.
const MAX_LOCALS: u64 = 5_000;
/// Parameters, and results, of one type: a block takes and gives as many.
const MAX_ARITY: usize = 64;
/// Places where control can come from or go to, times what may have to be carried there.
const MAX_CARRIED: u64 = 8_000_000;

/// Refuses a module that imports something, or that is more than a plugin needs. What else is wrong with it is left to
/// the compiler's own validation.
pub(super) fn check(bytes: &[u8]) -> Result<(), PluginFault> {
    if bytes.len() > MAX_MODULE_BYTES {
        return Err(no_plugin(format!("{} bytes, the limit is {MAX_MODULE_BYTES}", bytes.len())));
    }
    let mut code_bytes = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(broken)? {
            Payload::ImportSection(imports) => {
                if let Some(import) = imports.into_imports().next() {
                    let import = import.map_err(broken)?;
                    let name = format!("{}.{}", import.module, import.name);
                    let shown = muretai_protocol::text::one_line(&name, 100);
                    return Err(no_plugin(format!("it imports {shown}, and a plugin gets no imports")));
                }
            }
            Payload::TypeSection(types) => check_types(types)?,
            Payload::FunctionSection(section) => check_count("functions", section.count())?,
            Payload::GlobalSection(section) => check_count("globals", section.count())?,
            Payload::ExportSection(section) => check_count("exports", section.count())?,
            Payload::ElementSection(section) => check_count("element segments", section.count())?,
            Payload::DataSection(section) => check_count("data segments", section.count())?,
            Payload::CodeSectionEntry(body) => {
                code_bytes += body.range().len();
                if code_bytes > MAX_CODE_BYTES {
                    return Err(no_plugin(format!("more than {MAX_CODE_BYTES} bytes of code")));
                }
                check_function(&body)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_types(types: TypeSectionReader<'_>) -> Result<(), PluginFault> {
    check_count("types", types.count())?;
    for group in types {
        for ty in group.map_err(broken)?.types() {
            if let CompositeInnerType::Func(func) = &ty.composite_type.inner
                && func.params().len().max(func.results().len()) > MAX_ARITY
            {
                return Err(no_plugin(format!("a function with more than {MAX_ARITY} parameters or results")));
            }
        }
    }
    Ok(())
}

fn check_function(body: &FunctionBody<'_>) -> Result<(), PluginFault> {
    if body.range().len() > MAX_FUNCTION_BYTES {
        return Err(no_plugin(format!("a function of more than {MAX_FUNCTION_BYTES} bytes")));
    }
    let mut locals = 0u64;
    for local in body.get_locals_reader().map_err(broken)? {
        locals += u64::from(local.map_err(broken)?.0);
    }
    if locals > MAX_LOCALS {
        return Err(no_plugin(format!("a function with {locals} variables, the limit is {MAX_LOCALS}")));
    }
    let mut places = 0u64;
    let mut operators = body.get_operators_reader().map_err(broken)?;
    while !operators.eof() {
        places += match operators.read().map_err(broken)? {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::Else => 1,
            Operator::Br { .. } | Operator::BrIf { .. } | Operator::Return => 1,
            Operator::BrTable { targets } => u64::from(targets.len()) + 1,
            _ => 0,
        };
    }
    if places * (locals + MAX_ARITY as u64) > MAX_CARRIED {
        return Err(no_plugin(format!("a function with {places} branches and {locals} variables is too tangled")));
    }
    Ok(())
}

fn check_count(what: &str, count: u32) -> Result<(), PluginFault> {
    if count > MAX_ITEMS {
        return Err(no_plugin(format!("{count} {what}, the limit is {MAX_ITEMS}")));
    }
    Ok(())
}

fn no_plugin(why: String) -> PluginFault {
    PluginFault::NotAPlugin(why)
}

fn broken(error: BinaryReaderError) -> PluginFault {
    no_plugin(format!("no WebAssembly module: {} at byte {}", error.message(), error.offset()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        match check(&wat::parse_str(text).unwrap()) {
            Err(PluginFault::NotAPlugin(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_import_is_refused_by_its_name() {
        let why = fault(r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)))"#);
        assert!(why.contains("wasi_snapshot_preview1.fd_write"), "{why}");
        assert!(fault(r#"(module (import "env" "memory" (memory 1)))"#).contains("env.memory"));
    }

    #[test]
    fn what_would_keep_a_compiler_busy_is_refused() {
        let locals = format!("(module (func (local{})))", " i64".repeat(5_001));
        assert!(fault(&locals).contains("5001 variables"));
        let nop = format!("(module (func {}))", "nop ".repeat(131_072));
        assert!(fault(&nop).contains("function of more than"));
        let params = format!("(module (func (param{})))", " i32".repeat(65));
        assert!(fault(&params).contains("64 parameters"));
        let tangled = format!("(module (func (local{}) {}))", " i64".repeat(4_000), "(loop)".repeat(4_000));
        assert!(fault(&tangled).contains("too tangled"));
        let many = format!("(module {})", "(func)".repeat(20_001));
        assert!(fault(&many).contains("20001 functions"));
    }

    #[test]
    fn bytes_that_are_no_module_are_refused_and_never_panic() {
        for bytes in [&b""[..], b"\0asm", b"\x7fELF\x02\x01\x01", b"\0asm\x01\0\0\0\x0a\xff\xff\xff\xff\x0f"] {
            assert!(check(bytes).is_err() || bytes.len() < 9, "{bytes:?}");
        }
        let good = wat::parse_str("(module (memory 1) (func (export \"f\") (result i32) i32.const 1))").unwrap();
        assert_eq!(check(&good), Ok(()));
        for end in 0..good.len() {
            let _ = check(&good[..end]);
        }
        assert!(check(&vec![0; MAX_MODULE_BYTES + 1]).is_err());
    }
}
