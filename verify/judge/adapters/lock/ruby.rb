# SET NX PX and a script that compares and deletes, with redis-rb, for marketsim judge. Needs the gem redis
# (apt-get install ruby-redis).
require "redis"
require "securerandom"

class Lock
  COMPARE_AND_DELETE =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

  def initialize
    # A SET NX that is sent again finds the client's own lock.
    @server = Redis.new(host: ENV["REDIS_HOST"], port: ENV["REDIS_PORT"].to_i, timeout: 5, reconnect_attempts: 0)
    @lease_ms = ENV["LOCK_TTL_MS"].to_i
    @retry_seconds = ENV["LOCK_RETRY_MS"].to_i / 1000.0
  end

  def acquire(name)
    @key = ENV["KEY_PREFIX"] + name
    @token = SecureRandom.hex
    sleep @retry_seconds until @server.set(@key, @token, nx: true, px: @lease_ms)
  end

  # Frees the lock, unless its lease has ended: then it may be another's, and the answer is false.
  def release
    @server.eval(COMPARE_AND_DELETE, keys: [@key], argv: [@token]) == 1
  end
end

lock = Lock.new
$stdout.sync = true
$stdin.each_line(chomp: true) do |line|
  answer =
    case line
    when /\Aacquire (.+)/
      lock.acquire($1)
      "acquired"
    when "release" then lock.release ? "released" : "lost"
    when "now" then Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
    when "can cancel" then "no"
    else "error this is not understood: #{line}"
    end
  puts answer
rescue StandardError => e
  puts "error #{e.message.tr("\n", " ")}"
end
