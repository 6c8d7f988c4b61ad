//! Compiles what is not Rust: `src/kafka/waits.c`.

fn main() {
    println!("cargo::rerun-if-changed=src/kafka/waits.c");
    let target = |key: &str| std::env::var(key).unwrap_or_default();
    // Elsewhere conditions are made of other things, and librdkafka's waits are what they are.
    if target("CARGO_CFG_TARGET_OS") == "linux" && target("CARGO_CFG_TARGET_ENV") == "gnu" {
        cc::Build::new()
            .file("src/kafka/waits.c")
            .link_lib_modifier("+whole-archive")
            .compile("walferry_waits");
    }
}
