//! What people and their tools ask: health and reflection, through the usual generated clients.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Shutdown, SocketAddr};

use futures::StreamExt;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorProto, MethodDescriptorProto};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ExtensionRequest, ServerReflectionRequest, ServerReflectionResponse};
use tonic_reflection::pb::v1alpha;

use super::super::gate::Peer;
use super::super::services;
use super::client::{Client, DEADLINE, frame};
use crate::{Gate, Server};

/// A server at an address, and a usual client's channel to it.
async fn server() -> (Server, SocketAddr, Channel) {
    let (events, _) = mpsc::channel(8);
    let server = Server::start(&Handle::current(), events);
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), Gate::open()).unwrap();
    server.describe(include_bytes!("../../../../protojson/descriptors/envoy.binpb"));
    let channel = Endpoint::from_shared(format!("http://{at}")).unwrap().timeout(DEADLINE).connect().await.unwrap();
    (server, at, channel)
}

/// `grpc.health.v1.HealthListResponse`, which that client does not have yet.
#[derive(Clone, PartialEq, Message)]
struct HealthList {
    #[prost(btree_map = "string, message", tag = "1")]
    statuses: BTreeMap<String, HealthCheckResponse>,
}

const ADS: &str = "envoy.service.discovery.v3.AggregatedDiscoveryService";

#[tokio::test]
async fn health_is_told_once_as_a_list_and_until_the_server_stops() {
    let (server, at, channel) = server().await;
    let mut health = HealthClient::new(channel);
    let asked = |service: &str| HealthCheckRequest { service: service.to_owned() };
    for (service, expected) in
        [("", Ok(ServingStatus::Serving)), (ADS, Ok(ServingStatus::Serving)), ("no", Err(Code::NotFound))]
    {
        let answer = health.check(asked(service)).await;
        let answer = answer.map(|answer| answer.into_inner().status()).map_err(|status| status.code());
        assert_eq!(answer, expected, "{service}");
    }
    let mut client =
        Client::call(Box::new(TcpStream::connect(at).await.unwrap()), "/grpc.health.v1.Health/List", None).await;
    client.send(HealthCheckRequest::default()).await;
    let list = client.read::<HealthList>().await.unwrap().statuses;
    assert!(list.contains_key("") && list[ADS].status() == ServingStatus::Serving, "{list:?}");
    let mut watched = Vec::new();
    for (service, status) in [("", ServingStatus::Serving), ("no", ServingStatus::ServiceUnknown)] {
        let mut stream = health.watch(asked(service)).await.unwrap().into_inner();
        assert_eq!(stream.next().await.unwrap().unwrap().status(), status, "{service}");
        watched.push(stream);
    }
    server.stop(DEADLINE).await;
    for mut stream in watched {
        assert_eq!(stream.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
    }
}

#[tokio::test]
async fn large_answers_that_nobody_reads_are_few_and_hold_up_neither_health_nor_others() {
    let (events, _) = mpsc::channel(8);
    let server = Server::start(&Handle::current(), events);
    let (gate, other) = (Gate::open(), Gate::open());
    let at = server.listen_tcp("127.0.0.1:0".parse().unwrap(), gate.clone()).unwrap();
    let elsewhere = server.listen_tcp("127.0.0.1:0".parse().unwrap(), other).unwrap();
    let call = async |at: SocketAddr, path: &str| {
        Client::call(Box::new(TcpStream::connect(at).await.unwrap()), path, None).await
    };
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    // each answer holds its question twice
    let large = ServerReflectionRequest { host: "h".repeat(255 << 10), message_request: None };
    let (mut deaf, mut questions) = (Vec::new(), JoinSet::new());
    let account = gate.account(&Peer::Loopback);
    while account.turns() > 0 {
        let before = account.turns();
        let socket = TcpStream::connect(at).await.unwrap().into_std().unwrap();
        let line = socket.try_clone().unwrap();
        let client = Client::call(Box::new(TcpStream::from_std(socket).unwrap()), reflection, None).await;
        let (sender, question) = (client.sender(), frame(&large));
        questions.spawn(async move { while sender.send(question.clone()).await.is_ok() {} });
        deaf.push((client, line));
        // the next one comes when an answer to this one waits to be taken
        let waits = async {
            while account.turns() >= before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, waits).await.expect("answers without end");
    }
    let mut late = call(at, reflection).await;
    late.send(large.clone()).await;
    let mut health = call(at, "/grpc.health.v1.Health/Check").await;
    health.send(HealthCheckRequest::default()).await;
    assert_eq!(health.read::<HealthCheckResponse>().await.unwrap().status(), ServingStatus::Serving);
    let mut third = call(elsewhere, reflection).await;
    third.send(large.clone()).await;
    assert_eq!(third.read::<ServerReflectionResponse>().await.unwrap().valid_host, large.host);
    questions.shutdown().await;
    deaf.iter().for_each(|(_, line)| line.shutdown(Shutdown::Both).unwrap());
    assert_eq!(late.read::<ServerReflectionResponse>().await.unwrap().valid_host, large.host);
    late.send(ServerReflectionRequest { host: "h".repeat(257 << 10), message_request: None }).await;
    assert_eq!(late.read::<ServerReflectionResponse>().await, Err("8".into()));
    server.stop(DEADLINE).await;
}

/// The answers to questions on one stream.
async fn reflect(channel: &Channel, questions: Vec<MessageRequest>) -> Vec<MessageResponse> {
    let question = |request| ServerReflectionRequest { host: "xds".into(), message_request: Some(request) };
    let questions: Vec<_> = questions.into_iter().map(question).collect();
    let asked = questions.clone();
    let mut client = ServerReflectionClient::new(channel.clone());
    let answers = client.server_reflection_info(futures::stream::iter(questions)).await.unwrap().into_inner();
    let answers: Vec<_> = answers.map(Result::unwrap).collect().await;
    for (answer, asked) in answers.iter().zip(asked) {
        assert_eq!((&*answer.valid_host, answer.original_request.as_ref()), ("xds", Some(&asked)));
    }
    answers.into_iter().map(|answer| answer.message_response.unwrap()).collect()
}

#[tokio::test]
async fn reflection_lists_the_services_and_gives_their_files() {
    let (server, _, channel) = server().await;
    let symbols = [ADS, &format!("{ADS}.DeltaAggregatedResources"), "envoy.config.cluster.v3.Cluster.LbPolicy"];
    let mut questions = vec![MessageRequest::ListServices(String::new())];
    questions.extend(symbols.map(|symbol| MessageRequest::FileContainingSymbol(symbol.to_owned())));
    questions.push(MessageRequest::FileByFilename("envoy/config/core/v3/base.proto".into()));
    questions.push(MessageRequest::FileContainingSymbol("no.such.Symbol".into()));
    questions.push(MessageRequest::FileContainingExtension(ExtensionRequest::default()));
    questions.push(MessageRequest::AllExtensionNumbersOfType("envoy.config.cluster.v3.Cluster".into()));
    let mut answers = reflect(&channel, questions).await.into_iter();
    let Some(MessageResponse::ListServicesResponse(list)) = answers.next() else { panic!("no list") };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    assert!(names.iter().eq(services::names().collect::<Vec<_>>()), "{names:?}");
    for package in
        ["envoy.service.discovery.v3", "envoy.service.discovery.v3", "envoy.config.cluster.v3", "envoy.config.core.v3"]
    {
        let Some(MessageResponse::FileDescriptorResponse(files)) = answers.next() else { panic!("no file") };
        let file = FileDescriptorProto::decode(&*files.file_descriptor_proto[0]).unwrap();
        assert_eq!(file.package(), package);
    }
    for code in [Code::NotFound, Code::Unimplemented, Code::Unimplemented] {
        let Some(MessageResponse::ErrorResponse(error)) = answers.next() else { panic!("no error") };
        assert_eq!(error.error_code, code as i32);
    }
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn every_method_that_is_served_is_described_with_all_that_its_messages_are_made_of() {
    let (server, _, channel) = server().await;
    let symbol = |(service, method): (&str, &str)| MessageRequest::FileContainingSymbol(format!("{service}.{method}"));
    let methods: Vec<_> = services::methods().collect();
    let mut questions: Vec<_> = methods.iter().copied().map(symbol).collect();
    let (mut files, mut described, mut used) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    while !questions.is_empty() {
        let mut imports = BTreeSet::new();
        for answer in reflect(&channel, questions).await {
            let MessageResponse::FileDescriptorResponse(found) = answer else { panic!("no file: {answer:?}") };
            let file = FileDescriptorProto::decode(&*found.file_descriptor_proto[0]).unwrap();
            let prefix = if file.package().is_empty() { String::new() } else { format!(".{}", file.package()) };
            for service in &file.service {
                let name = |method: &MethodDescriptorProto| format!("{prefix}.{}.{}", service.name(), method.name());
                described.extend(service.method.iter().map(name));
                let types =
                    |method: &MethodDescriptorProto| [method.input_type().to_owned(), method.output_type().to_owned()];
                used.extend(service.method.iter().flat_map(types));
            }
            described.extend(file.enum_type.iter().map(|named| format!("{prefix}.{}", named.name())));
            file.message_type.iter().for_each(|message| note(&prefix, message, &mut described, &mut used));
            imports.extend(file.dependency.iter().cloned());
            files.insert(file.name().to_owned());
        }
        questions = imports.difference(&files).cloned().map(MessageRequest::FileByFilename).collect();
    }
    used.extend(methods.iter().map(|(service, method)| format!(".{service}.{method}")));
    assert_eq!(used.difference(&described).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(
        methods.len() > 25 && files.len() > 50 && used.len() > 200,
        "{} {} {}",
        methods.len(),
        files.len(),
        used.len()
    );
    server.stop(DEADLINE).await;
}

/// The names of a message and of what is declared in it, and of the types of its fields.
fn note(prefix: &str, message: &DescriptorProto, described: &mut BTreeSet<String>, used: &mut BTreeSet<String>) {
    let name = format!("{prefix}.{}", message.name());
    described.extend(message.enum_type.iter().map(|named| format!("{name}.{}", named.name())));
    used.extend(message.field.iter().filter_map(|field| field.type_name.clone()));
    message.nested_type.iter().for_each(|nested| note(&name, nested, described, used));
    described.insert(name);
}

#[tokio::test]
async fn reflection_is_there_under_its_older_name() {
    let (server, _, channel) = server().await;
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut answers = client.server_reflection_info(futures::stream::iter([request])).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
    assert!(matches!(answer, v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(_)));
    assert!(answers.next().await.is_none());
    server.stop(DEADLINE).await;
}

#[tokio::test]
async fn methods_that_are_not_served_are_unimplemented_and_broken_requests_invalid() {
    let (server, at, _) = server().await;
    let call = async |path| Client::call(Box::new(TcpStream::connect(at).await.unwrap()), path, None).await;
    for path in [
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/Fetch",
        "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters",
        "/grpc.health.v1.Health/check",
        "/grpc.health.v1.Health",
        "/",
    ] {
        assert_eq!(call(path).await.headers["grpc-status"], "12", "{path}");
    }
    let mut client = call("/grpc.health.v1.Health/Check").await;
    // a duration in the place of a text
    client.send(prost_types::Duration { seconds: 1, nanos: 0 }).await;
    assert_eq!(client.read::<prost_types::Duration>().await, Err("3".into()));
    server.stop(DEADLINE).await;
}
