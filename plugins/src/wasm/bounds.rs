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
/// Parameters of one type.
const MAX_PARAMS: usize = 32;
/// Results of one type: more than one is what no compiler makes for its own functions today.
const MAX_RESULTS: usize = 4;
/// What a block may carry beside the variables of its function, about.
const MAX_ARITY: u64 = 64;
/// Calls of one function, times what each takes and gives. A compiler keeps a place for each of them.
const MAX_FUNCTION_OPERANDS: u64 = 40_000;
/// The same of all functions.
const MAX_OPERANDS: u64 = 600_000;
/// Places where control can come from or go to, times what may have to be carried there.
const MAX_CARRIED: u64 = 8_000_000;

/// Refuses a module that imports something, or that is more than a plugin needs. What else is wrong with it is left to
/// the compiler's own validation.
pub(super) fn check(bytes: &[u8]) -> Result<(), PluginFault> {
    if bytes.len() > MAX_MODULE_BYTES {
        return Err(no_plugin(format!("{} bytes, the limit is {MAX_MODULE_BYTES}", bytes.len())));
    }
    let mut code = Code::default();
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
            Payload::TypeSection(types) => code.add_types(types)?,
            Payload::FunctionSection(section) => {
                check_count("functions", section.count())?;
                code.functions = section.into_iter().collect::<Result<_, _>>().map_err(broken)?;
            }
            Payload::GlobalSection(section) => check_count("globals", section.count())?,
            Payload::ExportSection(section) => check_count("exports", section.count())?,
            Payload::ElementSection(section) => check_count("element segments", section.count())?,
            Payload::DataSection(section) => check_count("data segments", section.count())?,
            Payload::CodeSectionEntry(body) => {
                code.add_function(&body)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What is known of a module's code so far.
#[derive(Default)]
struct Code {
    /// What a call of each type takes and gives, and one for the call.
    types: Vec<u64>,
    /// The type of each function.
    functions: Vec<u32>,
    bytes: usize,
    operands: u64,
}

impl Code {
    fn add_types(&mut self, types: TypeSectionReader<'_>) -> Result<(), PluginFault> {
        check_count("types", types.count())?;
        for group in types {
            for ty in group.map_err(broken)?.types() {
                let CompositeInnerType::Func(func) = &ty.composite_type.inner else {
                    return Err(no_plugin("a type that is no function's".to_owned()));
                };
                let (params, results) = (func.params().len(), func.results().len());
                if params > MAX_PARAMS || results > MAX_RESULTS {
                    let limits = format!("{MAX_PARAMS} parameters or {MAX_RESULTS} results");
                    return Err(no_plugin(format!("a function with more than {limits}")));
                }
                self.types.push((1 + params + results) as u64);
            }
        }
        Ok(())
    }

    fn add_function(&mut self, body: &FunctionBody<'_>) -> Result<(), PluginFault> {
        self.bytes += body.range().len();
        if self.bytes > MAX_CODE_BYTES {
            return Err(no_plugin(format!("more than {MAX_CODE_BYTES} bytes of code")));
        }
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
        let (mut places, mut operands) = (0u64, 0u64);
        let mut operators = body.get_operators_reader().map_err(broken)?;
        while !operators.eof() {
            let operator = operators.read().map_err(broken)?;
            places += match &operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::Else => 1,
                Operator::Br { .. } | Operator::BrIf { .. } | Operator::Return => 1,
                Operator::Call { .. } | Operator::CallIndirect { .. } | Operator::CallRef { .. } => 1,
                Operator::BrTable { targets } => u64::from(targets.len()) + 1,
                _ => 0,
            };
            operands += self.operands_of(&operator);
        }
        self.operands += operands;
        if operands > MAX_FUNCTION_OPERANDS || self.operands > MAX_OPERANDS {
            return Err(no_plugin("its calls take and give too many values".to_owned()));
        }
        if places * (locals + MAX_ARITY) > MAX_CARRIED {
            return Err(no_plugin(format!("a function with {places} branches and {locals} variables is too tangled")));
        }
        Ok(())
    }

    /// What an instruction of an unknown type takes is left to the validation, which refuses it.
    fn operands_of(&self, operator: &Operator<'_>) -> u64 {
        let of_type = |index: u32| self.types.get(index as usize).copied().unwrap_or(1);
        match operator {
            Operator::Call { function_index } => {
                self.functions.get(*function_index as usize).map_or(1, |index| of_type(*index))
            }
            Operator::CallIndirect { type_index, .. } | Operator::CallRef { type_index } => 3 + of_type(*type_index),
            _ => 0,
        }
    }
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
        let params = format!("(module (func (param{})))", " i32".repeat(33));
        assert!(fault(&params).contains("32 parameters"));
        let results = "(module (func (result i32 i32 i32 i32 i32) unreachable))";
        assert!(fault(results).contains("4 results"));
        let tangled = format!("(module (func (local{}) {}))", " i64".repeat(4_000), "(loop)".repeat(4_000));
        assert!(fault(&tangled).contains("too tangled"));
        let many = format!("(module {})", "(func)".repeat(20_001));
        assert!(fault(&many).contains("20001 functions"));
    }

    #[test]
    fn calls_that_carry_much_are_refused() {
        let many = " i64".repeat(64);
        let wide = format!("(module (type $t (func (param{many}) (result{many}))) (func $f (type $t) unreachable))");
        assert!(fault(&wide).contains("parameters"));
        // The widest call that there may be, in one function and in many.
        let params = " i64".repeat(MAX_PARAMS);
        let chain = |calls: usize, functions: usize| {
            let call = format!("{} (call $f)", "(local.get 0) ".repeat(MAX_PARAMS));
            let body = format!("(func (param i64) {})", call.repeat(calls));
            format!("(module (func $f (param{params})) {})", body.repeat(functions))
        };
        assert!(fault(&chain(1_300, 1)).contains("too many values"));
        assert!(fault(&chain(1_000, 20)).contains("too many values"));
        assert_eq!(check(&wat::parse_str(chain(1_000, 1)).unwrap()), Ok(()));
        let results = "(result i64 i64 i64 i64)";
        let indirect = "(call_indirect (type $t) (i32.const 0)) drop drop drop drop ".repeat(6_000);
        let indirect = format!("(module (table 1 funcref) (type $t (func {results})) (func {indirect}))");
        assert!(fault(&indirect).contains("too many values"));
        let bare = format!("(module (func $f) (func {}))", "(call $f)".repeat(40_001));
        assert!(fault(&bare).contains("too many values"));
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
