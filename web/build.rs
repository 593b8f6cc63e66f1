//! Gives the program in the browser a stack as large as that of a thread elsewhere.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_TARGET_ARCH").is_some_and(|arch| arch == "wasm32") {
        println!("cargo::rustc-link-arg-cdylib=-zstack-size=8388608");
    }
}
