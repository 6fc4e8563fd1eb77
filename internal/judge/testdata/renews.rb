# Locks that a thread renews while they are held, as the first argument says: see renews.py.
require "redis"
require "securerandom"

KIND = ARGV[0]
LEASE = ENV["LOCK_TTL_MS"].to_i
SERVER = Redis.new(host: ENV["REDIS_HOST"], port: ENV["REDIS_PORT"].to_i, timeout: 5, reconnect_attempts: 0)
REMOVE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
EXPIRE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"

# Renewal renews one acquisition until it is told to end.
class Renewal
  def initialize(key, token)
    @mutex = Mutex.new
    @told = ConditionVariable.new
    @over = false
    @thread = Thread.new { renew(key, token) until ended? }
  end

  def end
    return unless KIND == "stops"

    @mutex.synchronize do
      @over = true
      @told.signal
    end
    @thread.join
  end

  private

  def ended?
    @mutex.synchronize do
      @told.wait(@mutex, LEASE / 3000.0) unless @over
      @over
    end
  end

  def renew(key, token)
    KIND == "forever" ? SERVER.pexpire(key, LEASE) : SERVER.eval(EXPIRE, [key], [token, LEASE])
  rescue Redis::BaseError
    # the next one comes within the lease
  end
end

key = token = renewal = nil
while (line = $stdin.gets)
  word, name = line.split
  case word
  when "acquire"
    key, token = name, SecureRandom.hex
    begin
      sleep ENV["LOCK_RETRY_MS"].to_i / 1000.0 until SERVER.set(key, token, nx: true, px: LEASE)
      renewal = Renewal.new(key, token)
      puts "acquired"
    rescue Redis::BaseError
      puts "error"
    end
  when "release"
    begin
      renewal.end
      puts SERVER.eval(REMOVE, [key], [token]) == 1 ? "released" : "lost"
    rescue Redis::BaseError
      puts "error"
    end
  else
    puts "error"
  end
  $stdout.flush
end
