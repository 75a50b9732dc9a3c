//! Forms of PEM that users have, and that any text leads to blocks or a defect.

use proptest::prelude::*;

use super::{Defect, blocks, mistaken, write};

fn ders(text: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Defect> {
    blocks(text).map(|block| block.and_then(|block| Ok((block.label.to_owned(), block.der()?)))).collect()
}

fn written(label: &str, der: &[u8]) -> String {
    let mut text = Vec::new();
    write(&mut text, label, der);
    String::from_utf8(text).expect("ASCII")
}

#[test]
fn every_spelling_of_a_block_gives_its_content() {
    let (one, two) = (written("CERTIFICATE", &[1; 100]), written("EC PRIVATE KEY", &[2; 49]));
    let wanted = vec![("CERTIFICATE".to_owned(), vec![1; 100]), ("EC PRIVATE KEY".to_owned(), vec![2; 49])];
    let both = format!("{one}{two}");
    let long = |text: &str| {
        let joined: String = text.lines().filter(|line| !line.starts_with("--")).collect();
        let (first, last) = (text.lines().next().expect("a line"), text.lines().last().expect("a line"));
        format!("{first}\n{joined}\n{last}\n")
    };
    for (form, text) in [
        ("as written", both.clone()),
        ("joined", both.replace("-----\n-----", "----------")),
        ("CR", both.replace('\n', "\r")),
        ("CRLF", both.replace('\n', "\r\n")),
        ("byte order mark", format!("\u{feff}{one}\u{feff}{two}")),
        ("text around", format!("issued to us\n{one}Bag Attributes\n    localKeyID: 01 02\nKey: none\n{two}end")),
        ("blank lines", both.replace('\n', "\n\n")),
        ("trailing spaces", both.replace('\n', " \t \n")),
        ("indented", both.replace('\n', "\n\t  ")),
        ("long lines", format!("{}{}", long(&one), long(&two))),
        ("no last line end", both.trim_end().to_owned()),
        ("no padding", both.replace('=', "")),
        ("NUL behind", format!("{both}\0\0")),
    ] {
        assert_eq!(ders(text.as_bytes()), Ok(wanted.clone()), "{form}");
    }
}

#[test]
fn a_damaged_block_is_a_defect_and_never_skipped() {
    let block = written("CERTIFICATE", &[7; 60]);
    for (text, defect) in [
        (block.replace("-----END", "----END"), Defect::Open(1)),
        (block.replace("-----BEGIN", "----BEGIN"), Defect::Stray(1)),
        (block.replace("CERTIFICATE-----\nB", "CERTIFICATE----\nB"), Defect::Begin(1)),
        (block.replace("END CERTIFICATE", "END PRIVATE KEY"), Defect::Ends(1)),
        (block.replace("Bwc", "B!c"), Defect::Base64(1)),
        (block.replace("Bwc", "B\0c"), Defect::Base64(1)),
        (block.replace("-----\nB", "-----\nProc-Type: 4,ENCRYPTED\n\nB"), Defect::Encrypted(1)),
        (block.replace("-----\nB", "-----\nComment: x\n\nB"), Defect::Headers(1)),
        (format!("{block}-----END CERTIFICATE-----"), Defect::Stray(2)),
        (format!("{block}-----BEGIN CERTIFICATE-----\n{block}"), Defect::Open(2)),
    ] {
        assert_eq!(ders(text.as_bytes()), Err(defect), "{text}");
    }
}

#[test]
fn texts_that_are_taken_for_pem_are_recognised() {
    assert!(mistaken(b"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t").is_some());
    assert!(mistaken("\u{feff}".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>().as_slice()).is_some());
    assert!(mistaken("-----BEGIN".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>().as_slice()).is_some());
    assert_eq!(mistaken(b"hello"), None);
}

proptest! {
    #[test]
    fn any_content_comes_back_from_what_is_written(der in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(ders(written("CERTIFICATE", &der).as_bytes()), Ok(vec![("CERTIFICATE".to_owned(), der)]));
    }

    #[test]
    fn any_text_of_pieces_ends(pieces in proptest::collection::vec(
        prop::sample::select(vec!["-----BEGIN ", "-----END ", "CERTIFICATE", "-----", "\n", "AAAA", ":", "\0", "=", "\r"]), 0..40,
    )) {
        let text = pieces.concat();
        prop_assert!(blocks(text.as_bytes()).count() <= text.len());
    }
}
