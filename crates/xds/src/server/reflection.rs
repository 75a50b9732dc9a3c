//! gRPC server reflection, `v1` and `v1alpha`, which have the same messages: clients such as grpcurl learn the services from here.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use prost::{Message, Oneof};
use prost_types::{DescriptorProto, FileDescriptorProto};

use super::exchange::{Answer, read};
use super::grpc::Code;
use super::services;

mod own;
#[cfg(test)]
mod tests;

/// `ServerReflectionRequest`.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(oneof = "Wanted", tags = "3, 4, 5, 6, 7")]
    wanted: Option<Wanted>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Wanted {
    #[prost(string, tag = "3")]
    File(String),
    #[prost(string, tag = "4")]
    Symbol(String),
    #[prost(bytes = "bytes", tag = "5")]
    Extension(Bytes),
    #[prost(string, tag = "6")]
    Extensions(String),
    #[prost(string, tag = "7")]
    Services(String),
}

/// `ServerReflectionResponse`.
#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(string, tag = "1")]
    valid_host: String,
    #[prost(message, optional, tag = "2")]
    original_request: Option<Request>,
    #[prost(oneof = "Told", tags = "4, 6, 7")]
    told: Option<Told>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Told {
    #[prost(message, tag = "4")]
    Files(Files),
    #[prost(message, tag = "6")]
    Services(Services),
    #[prost(message, tag = "7")]
    Error(Error),
}

/// `FileDescriptorResponse`; also, as it has the same form, `google.protobuf.FileDescriptorSet`.
#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    files: Vec<Bytes>,
}

/// `ListServiceResponse`.
#[derive(Clone, PartialEq, Message)]
struct Services {
    #[prost(message, repeated, tag = "1")]
    services: Vec<Named>,
}

/// `ErrorResponse`.
#[derive(Clone, PartialEq, Message)]
struct Error {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// `ServiceResponse`.
#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

/// Descriptors by the names of files and of what is in them. The index is made when somebody asks for the first time: 0.3 MB beside
/// the bytes themselves, which are part of the program.
#[derive(Default)]
pub(super) struct Descriptors {
    set: OnceLock<&'static [u8]>,
    index: OnceLock<BTreeMap<String, Bytes>>,
}

impl Descriptors {
    /// The encoded `google.protobuf.FileDescriptorSet` to answer from; only the first one counts.
    pub(super) fn set(&self, set: &'static [u8]) {
        let _earlier = self.set.set(set);
    }

    /// The file of this name, or the one that declares this symbol. Members (methods, fields) are found by what they are in.
    fn find(&self, name: &str) -> Option<&Bytes> {
        let index = self.index.get_or_init(|| index(self.set.get().copied().unwrap_or_default()));
        index.get(name).or_else(|| index.get(name.rsplit_once('.')?.0))
    }

    fn answer(&self, wanted: &Wanted) -> Told {
        let error = |code: Code, message: &str| Told::Error(Error { code: code as i32, message: message.to_owned() });
        match wanted {
            Wanted::File(name) | Wanted::Symbol(name) => match self.find(name) {
                Some(file) => Told::Files(Files { files: vec![file.clone()] }),
                None => error(Code::NotFound, "nothing of this name is described here"),
            },
            Wanted::Services(_) => {
                let named = |name: &str| Named { name: name.to_owned() };
                Told::Services(Services { services: services::names().map(named).collect() })
            }
            Wanted::Extension(_) | Wanted::Extensions(_) => error(Code::Unimplemented, "extensions are not listed"),
        }
    }
}

/// Answers a stream of questions.
pub(super) fn answer(descriptors: Arc<Descriptors>) -> Answer {
    Box::new(move |_, request| {
        let request: Request = read(request)?;
        let told = request.wanted.as_ref().map(|wanted| descriptors.answer(wanted));
        let response = Response { valid_host: request.host.clone(), original_request: Some(request), told };
        Ok(response.encode_to_vec().into())
    })
}

/// Of a set, and of what such a set lacks of the services that there are.
fn index(set: &'static [u8]) -> BTreeMap<String, Bytes> {
    let own = own::files().into_iter().map(|file| file.encode_to_vec().into());
    // the set is part of the program and a test reads it; were it broken, nothing of it would be described
    let set = Files::decode(Bytes::from_static(set)).unwrap_or_default().files;
    let mut index = BTreeMap::new();
    for bytes in own.chain(set) {
        let file = FileDescriptorProto::decode(bytes.clone()).unwrap_or_default();
        index.extend(names(&file).into_iter().map(|name| (name, bytes.clone())));
    }
    index
}

/// The names of a file and of what is declared in it.
fn names(file: &FileDescriptorProto) -> Vec<String> {
    let prefix = if file.package().is_empty() { String::new() } else { format!("{}.", file.package()) };
    let enums = file.enum_type.iter().map(|named| named.name());
    let services = file.service.iter().map(|named| named.name());
    let declared = enums.chain(services).chain(file.extension.iter().map(|named| named.name()));
    let mut names: Vec<String> = declared.map(|name| format!("{prefix}{name}")).collect();
    file.message_type.iter().for_each(|message| collect(&prefix, message, &mut names));
    names.push(file.name().to_owned());
    names
}

/// The names of a message and of what is declared in it.
fn collect(prefix: &str, message: &DescriptorProto, names: &mut Vec<String>) {
    let own = format!("{prefix}{}", message.name());
    let inside = format!("{own}.");
    names.push(own);
    names.extend(message.enum_type.iter().map(|named| format!("{inside}{}", named.name())));
    message.nested_type.iter().for_each(|nested| collect(&inside, nested, names));
}
