//! What a client gets in place of a resource that does not exist, where it would wait for one otherwise (R6).

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use prost::encoding::encode_varint;

use crate::resource::{Resource, TypeUrl, Version};
use crate::snapshot::Item;

/// A message of this kind that holds nothing but its name, which is field 1 of `ClusterLoadAssignment` and `RouteConfiguration`.
pub(crate) fn stand_in(type_url: TypeUrl, name: &Arc<str>) -> Arc<Item> {
    let mut body = BytesMut::with_capacity(name.len() + 6);
    body.put_u8(0x0a);
    encode_varint(name.len() as u64, &mut body);
    body.extend_from_slice(name.as_bytes());
    Item::new(Resource::new(type_url, Arc::clone(name), Version::STAND_IN, [body.freeze()]).into(), 0)
}
