"""The JSON mapping as protobuf's own Python runtime has it: `python.py DESCRIPTORS`, asked by lines on standard input, answers by lines.

A question is {"name", "json"} and may have {"bytes", "printed"}: bytes of the message, and JSON of it by somebody else. The answer says what
the JSON becomes ("parsed", bytes), what is printed of it under both spellings of names ("camel", "snake"), what the printed JSON becomes
("again"), what is printed of the bytes ("of_bytes"), or why it is refused ("error").
"""

import base64
import json
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory


def main():
    with open(sys.argv[1], "rb") as file:
        files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(answer(pool, question)), flush=False)


def answer(pool, question):
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(question["name"]))
    try:
        parsed = json_format.Parse(question["json"], message(), descriptor_pool=pool)
        said = {"parsed": encoded(parsed), "camel": printed(parsed, pool), "snake": printed(parsed, pool, True)}
        if "bytes" in question:
            decoded = message.FromString(base64.b64decode(question["bytes"]))
            said["of_bytes"] = printed(decoded, pool)
            said["again"] = encoded(json_format.Parse(question["printed"], message(), descriptor_pool=pool))
        return said
    except Exception as error:  # whatever it is, it is told
        return {"error": f"{type(error).__name__}: {error}"}


def encoded(message):
    return base64.b64encode(message.SerializePartialToString(deterministic=True)).decode()


def printed(message, pool, snake=False):
    return json_format.MessageToJson(message, preserving_proto_field_name=snake, descriptor_pool=pool, indent=None)


if __name__ == "__main__":
    main()
