//! Header blocks as gRPC's C core writes them, and others, however the bytes are cut.

use proptest::prelude::*;

use super::*;

/// The flag of the last frame of a header block.
const END_HEADERS: u8 = 4;

/// A frame.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// A field with a name of the static table.
fn field(first: &[u8], value: &str) -> Vec<u8> {
    let length = value.len();
    let length = match length {
        0..127 => vec![length as u8],
        _ => vec![127, (length - 127) as u8 | 0x80, ((length - 127) >> 7) as u8],
    };
    [first, &length, value.as_bytes()].concat()
}

fn passed(bytes: &[u8], cut: usize) -> Vec<u8> {
    let mut authorities = Authorities::new();
    let mut all = [vec![b'%'; PREFACE], bytes.to_vec()].concat();
    all.chunks_mut(cut).for_each(|chunk| authorities.pass(chunk));
    all.split_off(PREFACE)
}

/// A block with an authority, by the index of its name or spelt out, after which a value with a percent sign stands that stays.
fn block(spelt: bool, authority: &str) -> Vec<u8> {
    let named = |name: &str, value: &str| field(&field(&[0x40], name), value);
    let authority = if spelt { named(":authority", authority) } else { field(&[0x41], authority) };
    let customs = ["x%y", ":authoritx", "authority", ":authority:"].map(|name| named(name, "%2"));
    let (path, other) = (field(&[0x44], "/a%2Fb"), field(&[0x0f, 0x2f], "%"));
    [vec![0x86, 0x83, 0x3f, 0xe1, 0x1f], path, customs.concat(), authority, other].concat()
}

#[test]
fn percent_signs_of_an_authority_become_hyphens_and_no_others() {
    let long = "a%2F".repeat(100);
    for authority in ["tmp%2Fx%2Fxds.sock", "localhost", "", &long] {
        let changed = authority.replace('%', "-");
        for (kind, flags, before, after) in [
            (HEADERS, END_HEADERS, &b""[..], &b""[..]),
            (HEADERS, END_HEADERS | PADDED, b"\x02", b"%%"),
            (HEADERS, END_HEADERS | PRIORITY, b"%%%%%", b""),
            (HEADERS, END_HEADERS | PADDED | PRIORITY, b"\x01%%%%%", b"%"),
        ] {
            let message = |authority: &str| {
                let data = frame(0, 0, b"\x41\x01%");
                let headers = |spelt| frame(kind, flags, &[before, &block(spelt, authority), after].concat());
                [&data[..], &headers(true), &data, &headers(false)].concat()
            };
            for cut in 1..40 {
                assert_eq!(passed(&message(authority), cut), message(&changed), "cut {cut}, flags {flags}");
            }
        }
    }
}

#[test]
fn a_block_in_several_frames_is_one() {
    let message = |authority: &str| {
        let block = block(true, authority);
        (1..block.len()).flat_map(move |at| {
            let (first, rest) = block.split_at(at);
            [frame(HEADERS, 0, first), frame(CONTINUATION, END_HEADERS, rest)].concat()
        })
    };
    let (sent, expected): (Vec<u8>, Vec<u8>) = (message("a%2Fb").collect(), message("a-2Fb").collect());
    assert_eq!(passed(&sent, 7), expected);
}

#[test]
fn a_value_in_huffman_code_is_left_alone() {
    let sent = frame(HEADERS, END_HEADERS, &[0x41, 0x83, b'%', b'%', b'%']);
    assert_eq!(passed(&sent, 3), sent);
}

proptest! {
    #[test]
    fn any_bytes_keep_their_length_and_all_but_percent_signs(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 1..50_usize) {
        let after = passed(&bytes, cut);
        prop_assert_eq!(after.len(), bytes.len());
        prop_assert!(bytes.iter().zip(&after).all(|(was, is)| was == is || (*was, *is) == (b'%', b'-')));
    }
}
