//! Base64 of `Secret.data` and `ConfigMap.binaryData`.

/// Decodes standard base64 with padding (RFC 4648); line breaks are skipped, as Kubernetes does.
/// None where the text is not base64.
#[must_use]
pub(crate) fn decode(text: &str) -> Option<Box<[u8]>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count, mut padding) = (0_u32, 0_u32, 0_u32);
    for byte in text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
        if byte == b'=' {
            padding += 1;
            continue;
        }
        if padding > 0 {
            return None;
        }
        bits = (bits << 6) | sextet(byte)?;
        count += 1;
        if count == 4 {
            out.extend_from_slice(bits.to_be_bytes().get(1..)?);
            (bits, count) = (0, 0);
        }
    }
    match (count, padding) {
        (0, 0) => {}
        (2, 2) => out.push(u8::try_from(bits >> 4 & 0xff).ok()?),
        (3, 1) => out.extend_from_slice((bits >> 2).to_be_bytes().get(2..)?),
        _ => return None,
    }
    Some(out.into())
}

fn sextet(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
