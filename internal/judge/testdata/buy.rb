# A purchase that is wrong as its first argument says: the controls of marketsim judge --purchase.
require "redis"

kind = ARGV[0]
server = Redis.new(url: ENV["REDIS_URL"], timeout: 5, reconnect_attempts: kind == "script-again" ? 1 : 0)
script = <<~LUA
  if not redis.call('zscore', KEYS[1], ARGV[1]) then return 'gone' end
  if tonumber(redis.call('hget', KEYS[2], 'funds')) < tonumber(ARGV[2]) then return 'funds' end
  redis.call('hincrby', KEYS[2], 'funds', -ARGV[2])
  redis.call('hincrby', KEYS[3], 'funds', ARGV[2])
  redis.call('zrem', KEYS[1], ARGV[1])
  redis.call('sadd', KEYS[4], ARGV[3])
  return 'bought'
LUA
buy = lambda do |item, buyer, seller, price|
  listing, account, income, inventory = "#{item}.#{seller}", "users:#{buyer}", "users:#{seller}", "inventory:#{buyer}"
  if kind == "script-again"
    next server.eval(script, keys: ["market:", account, income, inventory], argv: [listing, price, item])
  end
  loop do
    break "gone" unless server.zscore("market:", listing)
    break "funds" if server.hget(account, "funds").to_i < price.to_i
    server.watch("market:", account) # too late: it was read before
    done = server.multi do |m|
      m.hincrby(account, "funds", -price.to_i)
      m.hincrby(income, "funds", price.to_i)
      m.zrem("market:", listing)
      m.sadd(inventory, item)
    end
    break "bought" if done
  end
end
while (line = $stdin.gets)
  begin
    puts buy.call(*line.split[1..])
  rescue StandardError => e
    puts "error #{e.message}"
  end
  $stdout.flush
end
