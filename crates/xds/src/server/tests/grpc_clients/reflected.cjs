// Learns everything about a server from the server itself, as grpcurl does: the services, their files and whatever those import. Then
// calls it with what it learned. Writes the services as lines, or why it cannot.

const assert = require('assert');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const { Reader, Writer } = require('protobufjs/minimal');

const ADDRESS = process.argv[2];
const DEADLINE_MS = 12_000;
const REFLECTION = ['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'];
const STATUS = 'envoy.service.status.v3';
const pass = (bytes) => bytes;

// The bytes in the fields of this number.
function fields(bytes, wanted) {
  const found = [];
  for (const reader = Reader.create(bytes); reader.pos < reader.len;) {
    const tag = reader.uint32();
    if (tag === (wanted << 3 | 2)) found.push(reader.bytes());
    else reader.skipType(tag & 7);
  }
  return found;
}

// Asks questions, each the number of a field and its text, on one stream; gives the answers.
function ask(service, questions) {
  const client = new grpc.Client(ADDRESS, grpc.credentials.createInsecure());
  const options = { deadline: Date.now() + DEADLINE_MS };
  const call = client.makeBidiStreamRequest(`/${service}/ServerReflectionInfo`, pass, pass, new grpc.Metadata(), options);
  const answers = [];
  return new Promise((done, failed) => {
    call.on('data', (bytes) => answers.push(bytes)).on('error', failed).on('end', () => { client.close(); done(answers); });
    for (const [number, text] of questions) call.write(Writer.create().uint32(number << 3 | 2).string(text).finish());
    call.end();
  });
}

// A set of the files that declare these services, with all that they import.
async function files(reflection, services) {
  const known = new Map();
  let questions = services.map((service) => [4, service]);
  while (questions.length > 0) {
    const wanted = new Set();
    for (const [at, answer] of (await ask(reflection, questions)).entries()) {
      const found = fields(answer, 4).flatMap((files) => fields(files, 1));
      assert(found.length > 0, `nothing about ${questions[at][1]}`);
      for (const file of found) {
        known.set(fields(file, 1)[0].toString(), file);
        for (const name of fields(file, 3)) wanted.add(name.toString());
      }
    }
    questions = [...wanted].filter((name) => !known.has(name)).map((name) => [3, name]);
  }
  const set = Writer.create();
  for (const file of known.values()) set.uint32(1 << 3 | 2).bytes(file);
  return set.finish();
}

function call(definition, service, method, request) {
  const Client = grpc.makeClientConstructor(definition[service]);
  const client = new Client(ADDRESS, grpc.credentials.createInsecure());
  return new Promise((done, failed) =>
    client[method](request, { deadline: Date.now() + DEADLINE_MS }, (error, answer) => { client.close(); error ? failed(error) : done(answer); }));
}

// The messages and enums of a package, without options.
function shapes(definition) {
  const own = Object.entries(definition).filter(([name, { type }]) => name.startsWith(STATUS) && type);
  const text = ({ type }) => JSON.stringify(type, (key, value) => key === 'options' ? undefined : value);
  return Object.fromEntries(own.map(([name, one]) => [name, text(one)]));
}

async function main() {
  for (const reflection of REFLECTION) {
    const [list] = await ask(reflection, [[7, '']]);
    const services = fields(fields(list, 6)[0], 1).map((service) => fields(service, 1)[0].toString());
    const definition = loader.loadFileDescriptorSetFromBuffer(await files(reflection, services), { keepCase: true, enums: String });
    for (const service of services) assert(definition[service], `${service} is not in its file`);

    const { statuses } = await call(definition, 'grpc.health.v1.Health', 'List', {});
    // this loader reads a map as its entries
    assert.deepStrictEqual(statuses.map((entry) => entry.key ?? '').sort(), ['', ...services].sort());
    const { config } = await call(definition, `${STATUS}.ClientStatusDiscoveryService`, 'FetchClientStatus', { node: { cluster: 'mesh' } });
    assert.strictEqual(config, undefined, 'there is no client');
    const api = path.join(path.dirname(require.resolve('@grpc/grpc-js-xds/package.json')), 'deps');
    const includeDirs = ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map((folder) => path.join(api, folder));
    const published = loader.loadSync('envoy/service/status/v3/csds.proto', { keepCase: true, enums: String, includeDirs });
    assert.deepStrictEqual(shapes(definition), shapes(published));
    if (reflection === REFLECTION[0]) console.log(services.join('\n'));
  }
}

main().catch((error) => { console.log(error.stack); process.exit(1); });
