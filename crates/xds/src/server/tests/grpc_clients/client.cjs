// Calls of Node gRPC: reads lines "TARGET COUNT", writes who answered how often as lines "COUNT ANSWER" and an empty one.

const grpc = require('@grpc/grpc-js');
require('@grpc/grpc-js-xds').register();

const DEADLINE_MS = 12_000;
const AT_ONCE = 16;
const clients = new Map();

function client(target) {
  if (!clients.has(target)) clients.set(target, new grpc.Client(target, grpc.credentials.createInsecure()));
  return clients.get(target);
}

function answer(target) {
  const pass = (bytes) => bytes;
  return new Promise((told) => {
    const options = { deadline: Date.now() + DEADLINE_MS };
    client(target).makeUnaryRequest('/test.Backend/Name', pass, pass, Buffer.alloc(0), new grpc.Metadata(), options, (error, bytes) =>
      told(error ? `${grpc.status[error.code]} ${error.details}`.replaceAll('\n', ' ') : bytes.toString()));
  });
}

async function main() {
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    const [target, count] = line.split(' ');
    const answers = new Map();
    for (let left = Number(count); left > 0; left -= AT_ONCE) {
      const calls = Array.from({ length: Math.min(left, AT_ONCE) }, () => answer(target));
      for (const text of await Promise.all(calls)) answers.set(text, (answers.get(text) ?? 0) + 1);
    }
    for (const text of [...answers.keys()].sort()) console.log(`${answers.get(text)} ${text}`);
    console.log();
  }
  process.exit();
}

main();
