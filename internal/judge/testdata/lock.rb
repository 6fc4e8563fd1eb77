# A lock that is wrong as its first argument says: the controls of marketsim judge.
require "redis"
require "securerandom"

kind = ARGV[0]
server = Redis.new(host: ENV["REDIS_HOST"], port: ENV["REDIS_PORT"].to_i, timeout: 5)
lease = ENV["LOCK_TTL_MS"].to_i
taken = lambda do |name, token|
  case kind
  when "setnx-pexpire" then server.setnx(name, token) && server.pexpire(name, lease)
  when "get-set" then !server.get(name) && server.set(name, token, px: lease)
  else server.set(name, token, nx: true, px: lease)
  end
end
name = token = nil
while (line = $stdin.gets)
  word = line.split
  if word[0] == "acquire"
    name, token = word[1], kind == "fixed" ? "held" : SecureRandom.hex
    sleep 0.002 until taken.call(name, token)
    puts "acquired"
  else
    server.del(name) if kind != "get-del" || server.get(name) == token
    puts "done"
  end
  $stdout.flush
end
