//! Reports as they come, read where they lie: nothing is copied and nothing set aside for what a message only claims to hold. (A
//! message of 16 MiB can be eight million empty localities, 2 GB as generated types.)
//!
//! A field of a wire type other than its own is an unknown field. A repeated singular field counts as it came last.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, decode_varint};

use super::talk::Told;

/// Not a message at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a LoadStatsRequest")]
pub struct Malformed;

/// A field's content.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

impl<'a> Fields<'a> {
    #[inline]
    fn read(&mut self) -> Option<(u32, Value<'a>)> {
        let key = u32::try_from(self.varint()?).ok()?;
        let number = key >> 3;
        if number == 0 {
            return None;
        }
        let value = match WireType::try_from(u64::from(key & 7)).ok()? {
            WireType::Varint => Value::Number(self.varint()?),
            WireType::LengthDelimited => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (content, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Value::Bytes(content)
            }
            WireType::SixtyFourBit => {
                let (content, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                Value::Double(f64::from_le_bytes(*content))
            }
            WireType::ThirtyTwoBit => {
                self.0 = self.0.split_first_chunk::<4>()?.1;
                Value::Other
            }
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        Some((number, value))
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        // keys, lengths and most counts of a report have one byte
        if let [byte @ ..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Some(u64::from(*byte));
        }
        decode_varint(&mut self.0).ok()
    }

    /// The messages in a repeated field.
    pub(super) fn each(self, wanted: u32) -> impl Iterator<Item = Result<&'a [u8], Malformed>> {
        self.filter_map(move |field| match field {
            Ok((number, Value::Bytes(content))) if number == wanted => Some(Ok(content)),
            Ok(_) => None,
            Err(malformed) => Some(Err(malformed)),
        })
    }
}

/// `LoadStatsRequest.node`; none if there is none.
pub(crate) fn node_of(report: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    Fields(report).each(1).last().transpose()
}

/// `LoadStatsRequest.cluster_stats`.
pub(super) const CLUSTERS: u32 = 2;

/// `envoy.config.endpoint.v3.ClusterStats`, its repeated fields apart.
#[derive(Default)]
pub(super) struct ClusterStats<'a> {
    pub(super) name: &'a [u8],
    pub(super) service: &'a [u8],
    pub(super) dropped: u64,
    /// Seconds and nanoseconds.
    pub(super) interval: (i64, i32),
    /// Drops have categories.
    pub(super) has_categories: bool,
}

impl<'a> ClusterStats<'a> {
    pub(super) const LOCALITIES: u32 = 2;
    pub(super) const DROPPED: u32 = 5;

    pub(super) fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut stats = Self::default();
        for field in Fields(message) {
            match field? {
                (1, Value::Bytes(name)) => stats.name = name,
                (6, Value::Bytes(service)) => stats.service = service,
                (3, Value::Number(dropped)) => stats.dropped = dropped,
                (4, Value::Bytes(interval)) => stats.interval = duration(interval)?,
                (Self::DROPPED, Value::Bytes(_)) => stats.has_categories = true,
                _ => {}
            }
        }
        Ok(stats)
    }
}

/// `google.protobuf.Duration`. Numbers of fewer bits are sent with the sign in all 64.
fn duration(message: &[u8]) -> Result<(i64, i32), Malformed> {
    let mut duration = (0, 0);
    for field in Fields(message) {
        match field? {
            (1, Value::Number(seconds)) => duration.0 = seconds as i64,
            (2, Value::Number(nanos)) => duration.1 = nanos as i32,
            _ => {}
        }
    }
    Ok(duration)
}

/// `UpstreamLocalityStats` and `UpstreamEndpointStats`, their repeated fields apart. The two differ in the number of `issued` only.
#[derive(Default)]
pub(super) struct Stats<'a> {
    /// A `Locality`, an `Address`.
    pub(super) place: &'a [u8],
    pub(super) issued: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) in_progress: u64,
    /// Opened, not opened, open.
    pub(super) connections: [u64; 3],
    /// There are metrics.
    pub(super) has_metrics: bool,
    /// There are endpoints.
    pub(super) has_endpoints: bool,
}

impl<'a> Stats<'a> {
    pub(super) const METRICS: u32 = 5;
    pub(super) const ENDPOINTS: u32 = 7;
    /// Metrics that have a field of their own.
    pub(super) const NAMED: [(u32, &'static str); 3] =
        [(12, "cpu_utilization"), (13, "mem_utilization"), (14, "application_utilization")];

    pub(super) fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut stats = Self::default();
        for field in Fields(message) {
            match field? {
                (1, Value::Bytes(place)) => stats.place = place,
                (2, Value::Number(count)) => stats.succeeded = count,
                (3, Value::Number(count)) => stats.in_progress = count,
                (4, Value::Number(count)) => stats.failed = count,
                (7 | 8, Value::Number(count)) => stats.issued = count,
                (9, Value::Number(count)) => stats.connections[2] = count,
                (10, Value::Number(count)) => stats.connections[0] = count,
                (11, Value::Number(count)) => stats.connections[1] = count,
                (Self::METRICS | 12..=14, Value::Bytes(_)) => stats.has_metrics = true,
                (Self::ENDPOINTS, Value::Bytes(_)) => stats.has_endpoints = true,
                _ => {}
            }
        }
        Ok(stats)
    }
}

/// `EndpointLoadMetricStats`, `UnnamedEndpointLoadMetricStats` (whose numbers are one lower), `ClusterStats.DroppedRequests`.
pub(super) struct Named<'a> {
    pub(super) name: &'a [u8],
    pub(super) count: u64,
    pub(super) total: f64,
}

impl<'a> Named<'a> {
    pub(super) fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut named = Self { name: &[], count: 0, total: 0.0 };
        for field in Fields(message) {
            match field? {
                (1, Value::Bytes(name)) => named.name = name,
                (2, Value::Number(count)) => named.count = count,
                (3, Value::Double(total)) => named.total = total,
                _ => {}
            }
        }
        Ok(named)
    }

    pub(super) fn read_unnamed(message: &'a [u8], name: &'static str) -> Result<Self, Malformed> {
        let mut named = Self { name: name.as_bytes(), count: 0, total: 0.0 };
        for field in Fields(message) {
            match field? {
                (1, Value::Number(count)) => named.count = count,
                (2, Value::Double(total)) => named.total = total,
                _ => {}
            }
        }
        Ok(named)
    }
}

/// The texts in the fields 1 to 3.
pub(super) fn texts(message: &[u8]) -> Result<[&[u8]; 3], Malformed> {
    let mut texts = [&[][..]; 3];
    for field in Fields(message) {
        if let (number @ 1..=3, Value::Bytes(text)) = field?
            && let Some(slot) = texts.get_mut(number as usize - 1)
        {
            *slot = text;
        }
    }
    Ok(texts)
}

/// An `envoy.config.core.v3.Address` as people write it; none for an address without a usual form.
pub(super) fn address(message: &[u8]) -> Option<String> {
    let field = |message, wanted| Fields(message).each(wanted).last()?.ok();
    if let Some(pipe) = field(message, 2) {
        return Some(str::from_utf8(field(pipe, 1)?).ok()?.to_owned());
    }
    let socket = field(message, 1)?;
    let host = str::from_utf8(field(socket, 2)?).ok()?;
    let port = Fields(socket).find_map(|field| match field {
        Ok((3, Value::Number(port))) => Some(port),
        _ => None,
    })?;
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// `envoy.service.load_stats.v3.LoadStatsResponse`.
#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(string, repeated, tag = "1")]
    clusters: Vec<String>,
    #[prost(message, optional, tag = "2")]
    interval: Option<Span>,
    #[prost(bool, tag = "3")]
    endpoints: bool,
    #[prost(bool, tag = "4")]
    all: bool,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Message)]
struct Span {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// A response as one gRPC message.
pub(crate) fn frame(told: &Told) -> Bytes {
    let seconds = i64::try_from(told.interval.as_secs()).unwrap_or(i64::MAX);
    let nanos = i32::try_from(told.interval.subsec_nanos()).unwrap_or_default();
    let response = Response {
        clusters: told.clusters.iter().map(ToString::to_string).collect(),
        interval: Some(Span { seconds, nanos }),
        endpoints: told.endpoints,
        all: told.all,
    };
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(response.encoded_len()).unwrap_or(u32::MAX));
    bytes.extend_from_slice(&response.encode_to_vec());
    bytes.freeze()
}
