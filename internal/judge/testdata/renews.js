// Locks that a timer renews while they are held, as the first argument says: see renews.py.
const crypto = require('crypto');
const readline = require('readline');
const { createClient } = require('redis');

const kind = process.argv[2];
const lease = Number(process.env.LOCK_TTL_MS);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const remove = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const expire = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";

(async () => {
  const server = createClient({ url: process.env.REDIS_URL });
  server.on('error', () => {});
  await server.connect();

  let timer, renewing;
  let due = true;
  const renew = (key, token) => {
    if (!due) {
      return; // one at a time
    }
    due = false;
    renewing = (kind === 'forever'
      ? server.pExpire(key, lease)
      : server.eval(expire, { keys: [key], arguments: [token, String(lease)] }))
      .catch(() => {}) // the next one comes within the lease
      .finally(() => { due = true; });
  };
  const release = async (key, token) => {
    if (kind === 'stops') {
      clearInterval(timer);
      await renewing;
    }
    return server.eval(remove, { keys: [key], arguments: [token] });
  };

  let key, token;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [word, name] = line.split(' ');
    if (word === 'acquire') {
      [key, token] = [name, crypto.randomUUID()];
      try {
        while (!(await server.set(key, token, { NX: true, PX: lease }))) {
          await sleep(Number(process.env.LOCK_RETRY_MS));
        }
      } catch {
        console.log('error');
        continue;
      }
      const [k, t] = [key, token];
      clearInterval(timer);
      timer = setInterval(() => renew(k, t), lease / 3);
      console.log('acquired');
    } else if (word === 'release') {
      try {
        console.log((await release(key, token)) ? 'released' : 'lost');
      } catch {
        console.log('error');
      }
    } else {
      console.log('error');
    }
  }
  process.exit(0);
})();
