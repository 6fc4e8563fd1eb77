// SET NX PX and a script that compares and deletes, with node-redis, for marketsim judge. Needs the package redis.
const crypto = require('crypto');
const readline = require('readline');
const { createClient } = require('redis');

const release = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

(async () => {
  const server = createClient({ url: process.env.REDIS_URL });
  server.on('error', () => {}); // a connection that breaks is told where a command fails
  await server.connect();
  let name, token;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const word = line.split(' ');
    try {
      if (word[0] === 'acquire') {
        [name, token] = [process.env.KEY_PREFIX + word[1], crypto.randomBytes(16).toString('hex')];
        while (!(await server.set(name, token, { NX: true, PX: Number(process.env.LOCK_TTL_MS) }))) {
          await sleep(Number(process.env.LOCK_RETRY_MS));
        }
        console.log('acquired');
      } else {
        console.log((await server.eval(release, { keys: [name], arguments: [token] })) ? 'released' : 'lost');
      }
    } catch (e) {
      console.log('error ' + e.message);
    }
  }
  process.exit(0);
})();
