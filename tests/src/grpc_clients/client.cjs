// Node gRPC over xDS. `serve ADDRESS` answers calls with `Node`. Otherwise reads lines "TARGET COUNT", and writes how often each answer came
// as lines "COUNT ANSWER" and an empty one.

const grpc = require('@grpc/grpc-js');
const xds = require('@grpc/grpc-js-xds');
xds.register();

const DEADLINE_MS = 12_000;
const AT_ONCE = 16;
const METHOD = '/test.Backend/Name';
const pass = (bytes) => bytes;
const clients = new Map();

function client(target) {
  if (!clients.has(target)) clients.set(target, new grpc.Client(target, grpc.credentials.createInsecure()));
  return clients.get(target);
}

function answer(target) {
  return new Promise((told) => {
    const options = { deadline: Date.now() + DEADLINE_MS };
    client(target).makeUnaryRequest(METHOD, pass, pass, Buffer.alloc(0), new grpc.Metadata(), options, (error, bytes) =>
      told(error ? `${grpc.status[error.code]} ${error.details}`.replaceAll('\n', ' ') : bytes.toString()));
  });
}

function serve(address) {
  const server = new xds.XdsServer();
  const bytes = { requestSerialize: pass, requestDeserialize: pass, responseSerialize: pass, responseDeserialize: pass };
  const name = { path: METHOD, requestStream: false, responseStream: false, ...bytes };
  server.addService({ name }, { name: (call, send) => send(null, Buffer.from('Node')) });
  const credentials = new xds.XdsServerCredentials(grpc.ServerCredentials.createInsecure());
  server.bindAsync(address, credentials, (error) => {
    if (error) throw error;
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

if (process.argv[2] === 'serve') serve(process.argv[3]);
else main();
