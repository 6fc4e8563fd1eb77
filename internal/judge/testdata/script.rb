# A sound lock: SET NX PX, released by a script that compares and deletes, with redis-rb.
require "redis"
require "securerandom"

server = Redis.new(url: ENV["REDIS_URL"], timeout: 5)
release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
name = token = nil
while (line = $stdin.gets)
  word = line.split
  begin
    if word[0] == "acquire"
      name, token = word[1], SecureRandom.hex
      sleep 0.002 until server.set(name, token, nx: true, px: ENV["LOCK_TTL_MS"].to_i)
      puts "acquired"
    else
      puts server.eval(release, keys: [name], argv: [token]) == 1 ? "released" : "lost"
    end
  rescue StandardError => e
    puts "error #{e.message}"
  end
  $stdout.flush
end
