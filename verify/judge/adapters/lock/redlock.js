// Package redlock over ioredis, for marketsim judge, with one server. Not run here: npm install redlock@5 ioredis.
const readline = require('readline');
const Redis = require('ioredis');
const { default: Redlock } = require('redlock');

const retryDelay = Number(process.env.LOCK_RETRY_MS);
const locks = new Redlock([new Redis(process.env.REDIS_URL)], { retryCount: -1, retryDelay, retryJitter: 0 });

(async () => {
  let lock;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const word = line.split(' ');
    try {
      if (word[0] === 'acquire') {
        lock = await locks.acquire([process.env.KEY_PREFIX + word[1]], Number(process.env.LOCK_TTL_MS));
        console.log('acquired');
      } else {
        await lock.release();
        console.log('released');
      }
    } catch (e) {
      console.log((word[0] === 'release' && e.name === 'ExecutionError' ? 'lost' : 'error ' + e.message.replaceAll('\n', ' ')));
    }
  }
  process.exit(0);
})();
