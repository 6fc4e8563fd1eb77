// Package redlock over ioredis, for marketsim judge, with one server. Not run here: npm install redlock@5 ioredis.
const readline = require('readline');
const Redis = require('ioredis');
const { default: Redlock } = require('redlock');

const leaseMs = Number(process.env.LOCK_TTL_MS);
const retryDelay = Number(process.env.LOCK_RETRY_MS);
const server = new Redis(process.env.REDIS_URL);
const locks = new Redlock([server], { retryCount: -1, retryDelay, retryJitter: 0 });

let lock;

async function answer(line) {
  const [word, name] = line.split(' ');
  switch (word) {
    case 'acquire':
      lock = await locks.acquire([process.env.KEY_PREFIX + name], leaseMs);
      return 'acquired';
    case 'release':
      await lock.release();
      return 'released';
    case 'now':
      return Date.now();
    case 'can':
      return 'no'; // its calls cannot be cancelled
    default:
      return `error this is not understood: ${line}`;
  }
}

// ExecutionError is what release throws for a lock that is not its own any more.
function failure(line, e) {
  const lost = line === 'release' && e.name === 'ExecutionError';
  return lost ? 'lost' : `error ${e.message.replaceAll('\n', ' ')}`;
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(await answer(line).catch((e) => failure(line, e)));
  }
  process.exit(0);
})();
