// SET NX PX and a script that compares and deletes, with node-redis, for marketsim judge. Needs the package redis
// (npm install redis; or apt-get install node-redis, with NODE_PATH=/usr/share/nodejs).
const crypto = require('crypto');
const readline = require('readline');
const { setTimeout: sleep } = require('timers/promises');
const { createClient } = require('redis');

const leaseMs = Number(process.env.LOCK_TTL_MS);
const retryMs = Number(process.env.LOCK_RETRY_MS);
const compareAndDelete =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

const server = createClient({ url: process.env.REDIS_URL });
server.on('error', () => {}); // a connection that breaks is told where a command fails

let key, token;

async function acquire(name, signal) {
  key = process.env.KEY_PREFIX + name;
  token = crypto.randomBytes(16).toString('hex');
  while (!(await server.set(key, token, { NX: true, PX: leaseMs }))) {
    await sleep(retryMs, undefined, { signal });
  }
  return 'acquired';
}

async function release() {
  const freed = await server.eval(compareAndDelete, { keys: [key], arguments: [token] });
  return freed ? 'released' : 'lost';
}

async function answer(line, signal) {
  const [word, name] = line.split(' ');
  if (line === 'can cancel') return 'yes';
  if (line === 'now') return String(Date.now());
  if (word !== 'acquire' && word !== 'release') return `error this is not understood: ${line}`;
  try {
    if (!server.isOpen) await server.connect();
    return await (word === 'acquire' ? acquire(name, signal) : release());
  } catch (e) {
    return signal.aborted ? 'cancelled' : `error ${e.message}`; // what it may have taken ends with its lease
  }
}

// A call that is cancelled waits for no reply any more.
const closeConnection = () => server.disconnect().catch(() => {}); // it may be closed already

let call = new AbortController();
let answered = Promise.resolve();
const input = readline.createInterface({ input: process.stdin });
input.on('line', (line) => {
  if (line === 'cancel') {
    call.abort();
    return;
  }
  call = new AbortController();
  const { signal } = call;
  signal.addEventListener('abort', closeConnection);
  answered = answered.then(() => answer(line, signal)).then(console.log);
});
input.on('close', () => answered.then(() => process.exit(0)));
