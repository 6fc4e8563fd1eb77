// A purchase under WATCH, with node-redis, for marketsim judge --purchase and run --exec. Needs the package redis.
const readline = require('readline');
const { createClient, WatchError } = require('redis');

(async () => {
  const server = createClient({ url: process.env.REDIS_URL });
  server.on('error', () => {}); // a connection that breaks is told where a command fails
  await server.connect();
  const [market, users, inventory] = ['market:', 'users:', 'inventory:'].map((name) => process.env.KEY_PREFIX + name);

  // buy returns what became of one order. It begins anew only where EXEC says that nothing was done.
  const buy = async (item, buyer, seller, price) => {
    for (let retries = 0; ; retries++) {
      await server.watch([market, users + buyer]);
      const [listed, funds] = [await server.zScore(market, `${item}.${seller}`), await server.hGet(users + buyer, 'funds')];
      const refused = listed === null ? 'gone' : listed !== Number(price) ? 'price' : Number(funds) < price ? 'funds' : '';
      if (refused) {
        await server.unwatch();
        return refused;
      }
      try {
        await server.multi().hIncrBy(users + buyer, 'funds', -price).hIncrBy(users + seller, 'funds', Number(price))
          .zRem(market, `${item}.${seller}`).sAdd(inventory + buyer, item).exec();
        return `bought ${retries}`;
      } catch (e) {
        if (!(e instanceof WatchError)) throw e;
      }
    }
  };

  // list offers an item of the seller's inventory, which nobody else takes from.
  const list = async (item, seller, price) => {
    const [had] = await server.multi().sRem(inventory + seller, item)
      .zAdd(market, { score: Number(price), value: `${item}.${seller}` }).exec();
    return had ? 'listed' : 'error the seller did not have it';
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [word, ...order] = line.split(' ');
    console.log(await (word === 'buy' ? buy : list)(...order).catch((e) => 'error ' + e.message));
  }
  process.exit(0);
})();
