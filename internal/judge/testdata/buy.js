// A purchase that is wrong as its first argument says: the controls of marketsim judge --purchase.
const readline = require('readline');
const { createClient, WatchError } = require('redis');

const kind = process.argv[2];
const script = `
if not redis.call('zscore', KEYS[1], ARGV[1]) then return 'gone' end
if tonumber(redis.call('hget', KEYS[2], 'funds')) < tonumber(ARGV[2]) then return 'funds' end
redis.call('hincrby', KEYS[2], 'funds', -ARGV[2])
redis.call('hincrby', KEYS[3], 'funds', ARGV[2])
redis.call('zrem', KEYS[1], ARGV[1])
redis.call('sadd', KEYS[4], ARGV[3])
return 'bought'`;

(async () => {
  const server = createClient({ url: process.env.REDIS_URL });
  server.on('error', () => {});
  await server.connect();
  const buy = async (item, buyer, seller, price) => {
    const [listing, account, income, inventory] = [`${item}.${seller}`, `users:${buyer}`, `users:${seller}`, `inventory:${buyer}`];
    if (kind === 'script-again') {
      const order = { keys: ['market:', account, income, inventory], arguments: [listing, price, item] };
      return server.eval(script, order).catch(() => server.eval(script, order));
    }
    for (;;) {
      if ((await server.zScore('market:', listing)) === null) return 'gone';
      if (Number(await server.hGet(account, 'funds')) < Number(price)) return 'funds';
      try {
        await server.watch(['market:', account]); // too late: it was read before
        await server.multi().hIncrBy(account, 'funds', -price).hIncrBy(income, 'funds', Number(price))
          .zRem('market:', listing).sAdd(inventory, item).exec();
        return 'bought';
      } catch (e) {
        if (!(e instanceof WatchError)) throw e;
      }
    }
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(await buy(...line.split(' ').slice(1)).catch((e) => 'error ' + e.message));
  }
  process.exit(0);
})();
