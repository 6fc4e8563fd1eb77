// A purchase under WATCH, with node-redis, for marketsim judge --purchase and run --exec. Needs the package redis
// (npm install redis; or apt-get install node-redis, with NODE_PATH=/usr/share/nodejs).
const readline = require('readline');
const { createClient, WatchError } = require('redis');

const prefix = process.env.KEY_PREFIX;
const market = `${prefix}market:`;
const user = (number) => `${prefix}users:${number}`;
const inventory = (number) => `${prefix}inventory:${number}`;

const server = createClient({ url: process.env.REDIS_URL });
server.on('error', () => {}); // a connection that breaks is told where a command fails

// refusal says why an order cannot be made; empty: it can.
async function refusal(item, buyer, seller, price) {
  const listed = await server.zScore(market, `${item}.${seller}`);
  const funds = await server.hGet(user(buyer), 'funds');
  if (listed === null) return 'gone';
  if (listed !== Number(price)) return 'price';
  return Number(funds) < Number(price) ? 'funds' : '';
}

// buy returns what became of one order. It tries again only where EXEC says that nothing was done.
async function buy(item, buyer, seller, price) {
  for (let retries = 0; ; retries++) {
    await server.watch([market, user(buyer)]);
    const refused = await refusal(item, buyer, seller, price);
    if (refused) {
      await server.unwatch();
      return refused;
    }

    try {
      await server
        .multi()
        .hIncrBy(user(buyer), 'funds', -price)
        .hIncrBy(user(seller), 'funds', Number(price))
        .zRem(market, `${item}.${seller}`)
        .sAdd(inventory(buyer), item)
        .exec();
      return `bought ${retries}`;
    } catch (e) {
      if (!(e instanceof WatchError)) throw e;
    }
  }
}

// list offers an item of the seller's inventory, which nobody else takes from.
async function list(item, seller, price) {
  const [had] = await server
    .multi()
    .sRem(inventory(seller), item)
    .zAdd(market, { score: Number(price), value: `${item}.${seller}` })
    .exec();
  return had ? 'listed' : 'error the seller did not have it';
}

async function answer(line) {
  const [word, ...order] = line.split(' ');
  switch (word) {
    case 'buy':
      return buy(...order);
    case 'list':
      return list(...order);
    default:
      return `error this is not understood: ${line}`;
  }
}

(async () => {
  await server.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(await answer(line).catch((e) => `error ${e.message}`));
  }
  process.exit(0);
})();
