# SET NX PX, and a release under WATCH, with redis-rb, for marketsim judge. Needs the gem redis (apt-get install ruby-redis).
require "redis"
require "securerandom"

server = Redis.new(host: ENV["REDIS_HOST"], port: ENV["REDIS_PORT"].to_i, timeout: 5)
name = token = nil
while (line = $stdin.gets)
  word = line.split
  begin
    answer = "lost"
    if word[0] == "acquire"
      name, token = ENV["KEY_PREFIX"] + word[1], SecureRandom.hex
      sleep ENV["LOCK_RETRY_MS"].to_i / 1000.0 until server.set(name, token, nx: true, px: ENV["LOCK_TTL_MS"].to_i)
      answer = "acquired"
    else
      server.watch(name) do
        if server.get(name) == token
          answer = "released" if server.multi { |all| all.del(name) }
        else
          server.unwatch
        end
      end
    end
  rescue StandardError => e
    answer = "error #{e.message}"
  end
  puts answer
  $stdout.flush
end
