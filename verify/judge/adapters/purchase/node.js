// A purchase under WATCH, with node-redis, for marketsim judge --purchase. Needs the package redis.
const readline = require('readline');
const { createClient, WatchError } = require('redis');

(async () => {
  const server = createClient({ url: process.env.REDIS_URL });
  server.on('error', () => {}); // a connection that breaks is told where a command fails
  await server.connect();
  const [market, users, inventory] = ['market:', 'users:', 'inventory:'].map((name) => process.env.KEY_PREFIX + name);

  // buy returns what became of one order. It begins anew only where EXEC says that nothing was done.
  const buy = async (item, buyer, seller, price) => {
    for (;;) {
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
