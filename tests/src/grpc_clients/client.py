"""Python gRPC over xDS. `serve ADDRESS` answers calls with `Python`. Otherwise reads lines "TARGET COUNT", and writes how often each answer
came as lines "COUNT ANSWER" and an empty one."""

import collections
import concurrent.futures
import sys

import grpc

DEADLINE_S = 12
AT_ONCE = 16
stubs = {}


def stub(target):
    if target not in stubs:
        stubs[target] = grpc.insecure_channel(target).unary_unary("/test.Backend/Name")
    return stubs[target]


def answer(call):
    try:
        return call.result().decode()
    except grpc.RpcError as error:
        return f"{error.code().name} {error.details()}".replace("\n", " ")


class Name(grpc.GenericRpcHandler):
    def service(self, call):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"Python")


def serve(address):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(AT_ONCE), xds=True)
    server.add_generic_rpc_handlers([Name()])
    server.add_secure_port(address, grpc.xds_server_credentials(grpc.insecure_server_credentials()))
    server.start()
    server.wait_for_termination()


if len(sys.argv) == 3:
    serve(sys.argv[2])

for line in sys.stdin:
    target, count = line.split()
    name, left = stub(target), int(count)
    answers = collections.Counter()
    while left > 0:
        calls = [name.future(b"", timeout=DEADLINE_S) for _ in range(min(left, AT_ONCE))]
        left -= len(calls)
        answers.update(answer(call) for call in calls)
    for text, times in sorted(answers.items()):
        print(times, text)
    print(flush=True)
