//! The files of those services that Envoy itself does not know, so that the descriptors out of its binary lack them: health, reflection and
//! client status. They describe all of each service, what this server leaves out too.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    MessageOptions, MethodDescriptorProto, OneofDescriptorProto, ServiceDescriptorProto,
};

/// All of them.
pub(super) fn files() -> [FileDescriptorProto; 4] {
    [health(), reflection("v1"), reflection("v1alpha"), client_status()]
}

fn health() -> FileDescriptorProto {
    let package = "grpc.health.v1";
    let status = enumeration("ServingStatus", &["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"]);
    let response =
        message("HealthCheckResponse", [of_enum("status", 1, ".grpc.health.v1.HealthCheckResponse.ServingStatus")]);
    let response = DescriptorProto { enum_type: vec![status], ..response };
    let entry = message("StatusesEntry", [text("key", 1), of("value", 2, ".grpc.health.v1.HealthCheckResponse")]);
    let entry =
        DescriptorProto { options: Some(MessageOptions { map_entry: Some(true), ..Default::default() }), ..entry };
    let list =
        message("HealthListResponse", [many(of("statuses", 1, ".grpc.health.v1.HealthListResponse.StatusesEntry"))]);
    let list = DescriptorProto { nested_type: vec![entry], ..list };
    let methods = [
        method(package, "Check", ["HealthCheckRequest", "HealthCheckResponse"], [false, false]),
        method(package, "List", ["HealthListRequest", "HealthListResponse"], [false, false]),
        method(package, "Watch", ["HealthCheckRequest", "HealthCheckResponse"], [false, true]),
    ];
    FileDescriptorProto {
        message_type: vec![
            message("HealthCheckRequest", [text("service", 1)]),
            response,
            message("HealthListRequest", []),
            list,
        ],
        ..file("grpc/health/v1/health.proto", package, service("Health", methods))
    }
}

fn reflection(version: &str) -> FileDescriptorProto {
    let package = format!("grpc.reflection.{version}");
    let own = |name: &str, number, message: &str| of(name, number, &format!(".{package}.{message}"));
    let request = [
        text("host", 1),
        either(text("file_by_filename", 3)),
        either(text("file_containing_symbol", 4)),
        either(own("file_containing_extension", 5, "ExtensionRequest")),
        either(text("all_extension_numbers_of_type", 6)),
        either(text("list_services", 7)),
    ];
    let response = [
        text("valid_host", 1),
        own("original_request", 2, "ServerReflectionRequest"),
        either(own("file_descriptor_response", 4, "FileDescriptorResponse")),
        either(own("all_extension_numbers_response", 5, "ExtensionNumberResponse")),
        either(own("list_services_response", 6, "ListServiceResponse")),
        either(own("error_response", 7, "ErrorResponse")),
    ];
    let messages = vec![
        one_of("message_request", message("ServerReflectionRequest", request)),
        message("ExtensionRequest", [text("containing_type", 1), field("extension_number", 2, Type::Int32)]),
        one_of("message_response", message("ServerReflectionResponse", response)),
        message("FileDescriptorResponse", [many(field("file_descriptor_proto", 1, Type::Bytes))]),
        message(
            "ExtensionNumberResponse",
            [text("base_type_name", 1), many(field("extension_number", 2, Type::Int32))],
        ),
        message("ListServiceResponse", [many(own("service", 1, "ServiceResponse"))]),
        message("ServiceResponse", [text("name", 1)]),
        message("ErrorResponse", [field("error_code", 1, Type::Int32), text("error_message", 2)]),
    ];
    let types = ["ServerReflectionRequest", "ServerReflectionResponse"];
    let service = service("ServerReflection", [method(&package, "ServerReflectionInfo", types, [true, true])]);
    let name = format!("grpc/reflection/{version}/reflection.proto");
    FileDescriptorProto { message_type: messages, ..file(&name, &package, service) }
}

fn client_status() -> FileDescriptorProto {
    let package = "envoy.service.status.v3";
    let request = message(
        "ClientStatusRequest",
        [
            many(of("node_matchers", 1, ".envoy.type.matcher.v3.NodeMatcher")),
            of("node", 2, ".envoy.config.core.v3.Node"),
            field("exclude_resource_contents", 3, Type::Bool),
        ],
    );
    let client = message(
        "ClientConfig",
        [
            of("node", 1, ".envoy.config.core.v3.Node"),
            many(of("xds_config", 2, ".envoy.service.status.v3.PerXdsConfig")),
            many(of("generic_xds_configs", 3, ".envoy.service.status.v3.ClientConfig.GenericXdsConfig")),
            text("client_scope", 4),
        ],
    );
    let methods = ["StreamClientStatus", "FetchClientStatus"].map(|name| {
        let streams = name.starts_with("Stream");
        method(package, name, ["ClientStatusRequest", "ClientStatusResponse"], [streams, streams])
    });
    let imports = [
        "envoy/admin/v3/config_dump_shared.proto",
        "envoy/config/core/v3/base.proto",
        "envoy/type/matcher/v3/node.proto",
        "google/protobuf/any.proto",
        "google/protobuf/timestamp.proto",
    ];
    let client_states = ["CLIENT_UNKNOWN", "CLIENT_REQUESTED", "CLIENT_ACKED", "CLIENT_NACKED"];
    FileDescriptorProto {
        dependency: imports.map(str::to_owned).to_vec(),
        message_type: vec![
            request,
            status_by_kind(),
            DescriptorProto { nested_type: vec![status_by_name()], ..client },
            message("ClientStatusResponse", [many(of("config", 1, ".envoy.service.status.v3.ClientConfig"))]),
        ],
        enum_type: vec![
            enumeration("ConfigStatus", &["UNKNOWN", "SYNCED", "NOT_SENT", "STALE", "ERROR"]),
            enumeration("ClientConfigStatus", &client_states),
        ],
        ..file("envoy/service/status/v3/csds.proto", package, service("ClientStatusDiscoveryService", methods))
    }
}

fn status_by_kind() -> DescriptorProto {
    let kinds = ["Listeners", "Clusters", "Routes", "ScopedRoutes", "Endpoints"];
    let names = ["listener_config", "cluster_config", "route_config", "scoped_route_config", "endpoint_config"];
    let dumps = (2..).zip(names).zip(kinds);
    let dumps =
        dumps.map(|((number, name), kind)| either(of(name, number, &format!(".envoy.admin.v3.{kind}ConfigDump"))));
    let mut fields = vec![of_enum("status", 1, ".envoy.service.status.v3.ConfigStatus")];
    fields.push(of_enum("client_status", 7, ".envoy.service.status.v3.ClientConfigStatus"));
    fields.extend(dumps);
    one_of("per_xds_config", DescriptorProto { field: fields, ..message("PerXdsConfig", []) })
}

fn status_by_name() -> DescriptorProto {
    message(
        "GenericXdsConfig",
        [
            text("type_url", 1),
            text("name", 2),
            text("version_info", 3),
            of("xds_config", 4, ".google.protobuf.Any"),
            of("last_updated", 5, ".google.protobuf.Timestamp"),
            of_enum("config_status", 6, ".envoy.service.status.v3.ConfigStatus"),
            of_enum("client_status", 7, ".envoy.admin.v3.ClientResourceStatus"),
            of("error_state", 8, ".envoy.admin.v3.UpdateFailureState"),
            field("is_static_resource", 9, Type::Bool),
        ],
    )
}

fn file(name: &str, package: &str, service: ServiceDescriptorProto) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(name.to_owned()),
        package: Some(package.to_owned()),
        service: vec![service],
        syntax: Some("proto3".to_owned()),
        ..Default::default()
    }
}

fn service<const N: usize>(name: &str, methods: [MethodDescriptorProto; N]) -> ServiceDescriptorProto {
    ServiceDescriptorProto { name: Some(name.to_owned()), method: methods.into(), ..Default::default() }
}

/// A method by its two messages, and whether the client and the server stream them.
fn method(
    package: &str,
    name: &str,
    [input, output]: [&str; 2],
    [client_streams, server_streams]: [bool; 2],
) -> MethodDescriptorProto {
    MethodDescriptorProto {
        name: Some(name.to_owned()),
        input_type: Some(format!(".{package}.{input}")),
        output_type: Some(format!(".{package}.{output}")),
        client_streaming: client_streams.then_some(true),
        server_streaming: server_streams.then_some(true),
        ..Default::default()
    }
}

fn message<const N: usize>(name: &str, fields: [FieldDescriptorProto; N]) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field: fields.into(), ..Default::default() }
}

/// The message whose fields that are made with [`either`] exclude each other.
fn one_of(name: &str, message: DescriptorProto) -> DescriptorProto {
    let choice = OneofDescriptorProto { name: Some(name.to_owned()), ..Default::default() };
    DescriptorProto { oneof_decl: vec![choice], ..message }
}

fn either(field: FieldDescriptorProto) -> FieldDescriptorProto {
    FieldDescriptorProto { oneof_index: Some(0), ..field }
}

fn many(mut field: FieldDescriptorProto) -> FieldDescriptorProto {
    field.set_label(Label::Repeated);
    field
}

fn text(name: &str, number: i32) -> FieldDescriptorProto {
    field(name, number, Type::String)
}

/// A field that holds a message of this full name.
fn of(name: &str, number: i32, message: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(message.to_owned()), ..field(name, number, Type::Message) }
}

fn of_enum(name: &str, number: i32, enumeration: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(enumeration.to_owned()), ..field(name, number, Type::Enum) }
}

fn field(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
    let mut field = FieldDescriptorProto { name: Some(name.to_owned()), number: Some(number), ..Default::default() };
    field.set_label(Label::Optional);
    field.set_type(kind);
    field
}

/// Values by their numbers, from 0.
fn enumeration(name: &str, values: &[&str]) -> EnumDescriptorProto {
    let value = |(number, name): (i32, &&str)| EnumValueDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(number),
        ..Default::default()
    };
    EnumDescriptorProto {
        name: Some(name.to_owned()),
        value: (0..).zip(values).map(value).collect(),
        ..Default::default()
    }
}
