//! The fuzz targets as ordinary tests: the bodies in `fuzz/src`, on so many inputs, which are the same each time.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use peak_alloc::PeakAlloc;

/// No input needs more memory, that of all tests that run beside it included. Only counted where [`PeakAlloc`] is the allocator.
const MOST_MEMORY: usize = 1 << 30;

/// Changes of an example in one input.
const MOST_CHANGES: usize = 8;

/// Bytes that lengths, tags and texts end or turn at.
const EDGES: &[&[u8]] = &[
    b"\0",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\n",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\0\xff\xff\xff\xff",
    b"\n---\n",
    b"\xc3\xa9",
];

/// A test for each target: its module, how many inputs, the longest of any bytes, examples.
#[macro_export]
macro_rules! fuzz_targets {
    ($($name:ident: $inputs:literal, $longest:literal, $examples:expr;)*) => {$(
        #[test]
        fn $name() {
            let (package, name, examples) = (env!("CARGO_PKG_NAME"), stringify!($name), $examples);
            $crate::inputs::Target { package, name, body: $name::run, inputs: $inputs, longest: $longest, examples }.run();
        }
    )*};
}

/// A fuzz target and what a test tries on it.
pub struct Target {
    /// The package of the test.
    pub package: &'static str,
    /// As in `fuzz/Cargo.toml`.
    pub name: &'static str,
    /// Panics if something is wrong.
    pub body: fn(&[u8]),
    /// How many inputs.
    pub inputs: usize,
    /// Bytes of the longest that is not made from an example.
    pub longest: usize,
    /// What most inputs are made from: some of it changed, cut out, doubled, put into another. None: any bytes.
    pub examples: Vec<Vec<u8>>,
}

impl Target {
    /// Tries them. `INPUT=file` tries that file instead, `INPUTS=100000` so many others.
    ///
    /// # Panics
    /// If the body does. The input is kept where those of the fuzzer are.
    #[expect(clippy::disallowed_methods, reason = "what is tried is the business of whoever runs this")]
    pub fn run(&self) {
        if let Some(file) = std::env::var_os("INPUT") {
            let input = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            return (self.body)(&input);
        }
        let more = std::env::var("INPUTS").ok().and_then(|number| number.parse().ok());
        let mut rng = if more.is_some() { Rng::new() } else { Rng::with_seed(16) };
        self.examples.iter().for_each(|example| self.check(example));
        for _ in 0..more.unwrap_or(self.inputs) {
            self.check(&self.input(&mut rng));
        }
    }

    fn check(&self, input: &[u8]) {
        let end = catch_unwind(AssertUnwindSafe(|| (self.body)(input)));
        let memory = PeakAlloc.peak_usage();
        let fault = match end {
            Err(_) => "the panic above".to_owned(),
            Ok(()) if memory > MOST_MEMORY => format!("{memory} bytes of memory, for this or for what runs beside it"),
            Ok(()) => return,
        };
        let Self { package, name, .. } = self;
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        let kept = self.keep(input).map_or_else(|error| error.to_string(), |file| file.display().to_string());
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!(
            "fuzz target {name}: {fault}, with the {} bytes in {kept}. Again:\n  \
            INPUT={kept} cargo test -p {package} {test}\n  \
            cargo +nightly fuzz run {name} {kept}\nIn hex (back with `xxd -r -p`):\n{hex}",
            input.len()
        );
    }

    /// Where `cargo fuzz` keeps what crashed, too.
    fn keep(&self, input: &[u8]) -> std::io::Result<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
        let folder = root.join("fuzz/artifacts").join(self.name);
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("test");
        std::fs::write(&file, input)?;
        Ok(file)
    }

    fn input(&self, rng: &mut Rng) -> Vec<u8> {
        let Some(example) = rng.choice(&self.examples).filter(|_| rng.u8(..8) != 0) else {
            return self.bytes(rng);
        };
        let mut input = example.clone();
        for _ in 0..rng.usize(1..=MOST_CHANGES) {
            self.change(&mut input, rng);
        }
        input
    }

    /// Any bytes, short ones as often as long ones.
    fn bytes(&self, rng: &mut Rng) -> Vec<u8> {
        let most = rng.u32(..=self.longest.ilog2());
        let length = rng.usize(..=self.longest >> most);
        let mut bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(length).collect();
        if rng.u8(..4) == 0 {
            // lengths and choices are small numbers
            bytes.iter_mut().for_each(|byte| *byte %= 16);
        }
        bytes
    }

    fn change(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        let at = rng.usize(..=input.len());
        match rng.u8(..8) {
            0 => input.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << rng.u8(..8)),
            1 => input.get_mut(at).into_iter().for_each(|byte| *byte = rng.u8(..)),
            2 => drop(input.drain(part(input, rng))),
            3 => input.truncate(at),
            4 => {
                let doubled = input.get(part(input, rng)).unwrap_or_default().to_vec();
                insert(input, at, &doubled);
            }
            5 => insert(input, at, rng.choice(EDGES).copied().unwrap_or_default()),
            6 => {
                let other = rng.choice(&self.examples).map(Vec::as_slice).unwrap_or_default();
                insert(input, at, other.get(part(other, rng)).unwrap_or_default());
            }
            _ => {
                let (here, there) = (part(input, rng), rng.choice(&self.examples));
                let other = there.map(Vec::as_slice).unwrap_or_default();
                input.splice(here, other.get(part(other, rng)).unwrap_or_default().iter().copied());
            }
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// A part of the bytes, as a rule a short one; of a text often whole lines.
fn part(bytes: &[u8], rng: &mut Rng) -> std::ops::Range<usize> {
    let start = rng.usize(..=bytes.len());
    let end = start + rng.usize(..=bytes.len() - start) / rng.usize(1..=16);
    if rng.bool() {
        return start..end;
    }
    let line = |at: usize| bytes.get(at..).into_iter().flatten().position(|byte| *byte == b'\n').map(|more| at + more);
    line(start).and_then(|start| Some(start..line(end)?)).unwrap_or(start..end)
}
