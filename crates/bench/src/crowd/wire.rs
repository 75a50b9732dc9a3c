//! The discovery messages of a crowd's clients, read and written by hand. Field numbers: `envoy/service/discovery/v3/discovery.proto`.

/// A response of delta xDS, as far as a client of the crowd cares.
#[derive(Default)]
pub(super) struct Response<'a> {
    pub(super) type_url: &'a [u8],
    pub(super) nonce: &'a [u8],
    /// Its resources, not read yet.
    pub(super) resources: Vec<&'a [u8]>,
}

/// A resource of a response.
#[derive(Default)]
pub(super) struct Resource<'a> {
    pub(super) version: &'a [u8],
    pub(super) name: &'a [u8],
    /// The message inside its `Any`.
    pub(super) body: &'a [u8],
}

impl<'a> Response<'a> {
    pub(super) fn read(message: &'a [u8]) -> Self {
        let mut response = Self::default();
        each_field(message, |number, value| match number {
            2 => response.resources.push(value),
            4 => response.type_url = value,
            5 => response.nonce = value,
            _ => {}
        });
        response
    }
}

impl<'a> Resource<'a> {
    pub(super) fn read(message: &'a [u8]) -> Self {
        let mut resource = Self::default();
        each_field(message, |number, value| match number {
            1 => resource.version = value,
            2 => each_field(value, |number, value| {
                if number == 2 {
                    resource.body = value;
                }
            }),
            3 => resource.name = value,
            _ => {}
        });
        resource
    }
}

/// Calls `each` with every field that has a length. There are no others in what is read here.
fn each_field<'a>(mut message: &'a [u8], mut each: impl FnMut(u64, &'a [u8])) {
    while !message.is_empty() {
        let key = varint(&mut message);
        let length = varint(&mut message);
        if key & 7 != 2 {
            continue;
        }
        let Some((value, rest)) = usize::try_from(length).ok().and_then(|length| message.split_at_checked(length))
        else {
            return;
        };
        each(key >> 3, value);
        message = rest;
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some((byte, rest)) = bytes.split_first() else { return value };
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return value;
        }
    }
    value
}

/// A request: the kind, and whatever fields follow.
pub(super) fn request(type_url: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(128);
    put(&mut message, 2, type_url);
    message
}

/// Appends a field that has a length.
pub(super) fn put(message: &mut Vec<u8>, number: u8, value: &[u8]) {
    message.push(number << 3 | 2);
    put_varint(message, value.len());
    message.extend_from_slice(value);
}

/// Appends an entry of a map from text to text.
pub(super) fn put_entry(message: &mut Vec<u8>, number: u8, key: &[u8], value: &[u8]) {
    let mut entry = Vec::with_capacity(key.len() + value.len() + 8);
    put(&mut entry, 1, key);
    put(&mut entry, 2, value);
    put(message, number, &entry);
}

fn put_varint(message: &mut Vec<u8>, mut value: usize) {
    while value >= 128 {
        message.push(u8::try_from(value & 127).unwrap_or_default() | 128);
        value >>= 7;
    }
    message.push(u8::try_from(value).unwrap_or_default());
}
