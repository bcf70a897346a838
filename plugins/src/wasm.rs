//! WebAssembly plugins, in a sandbox without any import.
