"""Calls of Python gRPC: reads lines "TARGET COUNT", writes who answered how often as lines "COUNT ANSWER" and an empty one."""

import collections
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
