//! How fast text becomes checked objects: `cargo run --release -p api --example speed -- FILE`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{Kind, yaml};

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let text = std::fs::read_to_string(&path)?;
    let file: Arc<str> = path.into();
    for _ in 0..3 {
        round(&text, &file)?;
    }
    Ok(())
}

/// Reads everything once and prints one line per step and kind.
fn round(text: &str, file: &Arc<str>) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    let began = Instant::now();
    let documents: Vec<_> = yaml::documents(text).collect();
    let split = began.elapsed();
    let (mut parsing, mut decoding) = (Duration::ZERO, Duration::ZERO);
    let mut kinds: BTreeMap<Option<Kind>, (u32, usize, Duration)> = BTreeMap::new();
    let (mut kept, mut problems) = (Vec::new(), 0);
    for document in &documents {
        let begin = Instant::now();
        let Ok(tree) = yaml::parse(document.text) else { continue };
        let middle = Instant::now();
        let decoded = api::decode(&tree, api::Origin { file: Some(file), text: document.text, line: document.line });
        let end = Instant::now();
        parsing += middle - begin;
        decoding += end - middle;
        let sum = kinds.entry(decoded.object().map(api::Object::kind)).or_default();
        *sum = (sum.0 + 1, sum.1 + document.text.len(), sum.2 + (end - begin));
        problems += decoded.problems.len();
        kept.extend(decoded.objects);
    }
    let whole = split + parsing + decoding;
    let rate = |bytes: usize, time: Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    writeln!(
        out,
        "{} objects, {problems} problems, {:.1} MB: split {split:?}, parse {parsing:?}, check and decode {decoding:?}; {:.0} MB/s",
        kept.len(),
        text.len() as f64 / 1e6,
        rate(text.len(), whole)
    )?;
    for (kind, (count, bytes, time)) in kinds {
        writeln!(
            out,
            "  {kind:?}: {count} of {} bytes, {:.2} us each, {:.0} MB/s",
            bytes / count as usize,
            time.as_secs_f64() * 1e6 / f64::from(count),
            rate(bytes, time)
        )?;
    }
    Ok(())
}
