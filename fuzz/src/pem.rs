//! Any bytes as certificates, keys and bundles: what a proxy gets is canonical PEM, and reading that gives the same again.

use translator::fuzzing::{bundle, pair};

/// Runs an input: a chain and a key, parted by a byte that neither has.
pub fn run(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0xff);
    let (chain, key) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    for text in [chain, key] {
        if let Ok(read) = bundle(text) {
            assert_canonical(&read);
            assert!(read.len() <= 2 * text.len() + 64, "{} bytes became {}", text.len(), read.len());
            assert_eq!(bundle(&read).as_ref(), Ok(&read), "reading what was written gives it again");
        }
    }
    match pair(chain, key) {
        Ok((chain, key)) => {
            assert_canonical(&chain);
            assert_canonical(&key);
            assert_eq!(pair(&chain, &key), Ok((chain, key)), "reading what was written gives it again");
        }
        Err(words) => assert!(words.len() < 300 && words.is_ascii(), "{words:?} may quote the input"),
    }
}

/// Blocks of lines that every reader of PEM takes.
fn assert_canonical(text: &[u8]) {
    let text = std::str::from_utf8(text).unwrap_or_else(|_| panic!("it is no text"));
    assert!(text.ends_with("-----\n"));
    for line in text.split_terminator('\n') {
        let is_edge = line.starts_with("-----BEGIN ") || line.starts_with("-----END ");
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        assert!(is_edge || (1..=64).contains(&line.len()) && line.bytes().all(is_base64), "{line:?}");
    }
}
