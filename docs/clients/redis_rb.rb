# What redis-rb tells whoever called it when a reply is lost: ruby redis_rb.rb HOST PORT incrby|buy [RECONNECT_ATTEMPTS]
require "redis"
host, port, what, attempts = ARGV
redis = Redis.new({ host: host, port: port, reconnect_attempts: attempts&.to_i }.compact)

buy = lambda do
  redis.watch("coins") do
    left = redis.get("coins").to_i - 10
    redis.multi { |transaction| transaction.set("coins", left) }
  end
end

puts Redis::VERSION
begin
  what == "incrby" ? redis.incrby("n", 1) : (nil until buy.call)
  puts "no error"
rescue Redis::BaseError => e
  puts e.class.name.delete_prefix("Redis::")
end
