// A lock that is wrong as its first argument says: the controls of marketsim judge.
const crypto = require('crypto');
const readline = require('readline');
const { createClient } = require('redis');

const kind = process.argv[2];
const lease = Number(process.env.LOCK_TTL_MS);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

(async () => {
  const server = createClient({ url: process.env.REDIS_URL });
  server.on('error', () => {});
  await server.connect();
  const taken = async (name, token) => {
    switch (kind) {
      case 'setnx-pexpire':
        return (await server.setNX(name, token)) && (await server.pExpire(name, lease));
      case 'get-set':
        return !(await server.get(name)) && (await server.set(name, token, { PX: lease }));
      default:
        return server.set(name, token, { NX: true, PX: lease });
    }
  };
  let name, token;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const word = line.split(' ');
    if (word[0] === 'acquire') {
      [name, token] = [word[1], kind === 'fixed' ? 'held' : crypto.randomBytes(16).toString('hex')];
      while (!(await taken(name, token))) {
        await sleep(2);
      }
      console.log('acquired');
    } else {
      if (kind !== 'get-del' || (await server.get(name)) === token) {
        await server.del(name);
      }
      console.log('done');
    }
  }
  process.exit(0);
})();
