// What node-redis tells whoever called it when a reply is lost: node node_redis.js HOST PORT incrby|buy
const { createClient, WatchError } = require('redis');
const [host, port, what] = process.argv.slice(2);
const client = createClient({ socket: { host, port } }).on('error', () => {}); // it connects again by itself

const buy = () => client.executeIsolated(async (isolated) => {
  await isolated.watch('coins');
  const left = (await isolated.get('coins')) - 10;
  return isolated.multi().set('coins', left).exec();
}).catch((e) => (e instanceof WatchError ? buy() : Promise.reject(e)));

(async () => {
  console.log(require('redis/package.json').version);
  await client.connect();
  const told = what === 'incrby' ? client.incrBy('n', 1) : buy();
  console.log(await told.then(() => 'no error', (e) => e.constructor.name));
  process.exit();
})();
