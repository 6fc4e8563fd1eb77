<?php
// SET NX PX and a script that compares and deletes, with phpredis, for marketsim judge (apt-get install php-redis).

final class Lock
{
    private const COMPARE_AND_DELETE =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

    private Redis $server;
    private string $key;
    private string $token;

    public function __construct()
    {
        $this->server = new Redis();
    }

    public function acquire(string $name): void
    {
        $this->connect();
        $this->key = getenv('KEY_PREFIX') . $name;
        $this->token = bin2hex(random_bytes(16));
        $onlyIfFree = ['nx', 'px' => (int) getenv('LOCK_TTL_MS')];
        while (!$this->server->set($this->key, $this->token, $onlyIfFree)) {
            usleep(1000 * (int) getenv('LOCK_RETRY_MS'));
        }
    }

    /** Frees the lock, unless its lease has ended: then it may be another's, and the answer is false. */
    public function release(): bool
    {
        $this->connect();
        return (bool) $this->server->eval(self::COMPARE_AND_DELETE, [$this->key, $this->token], 1);
    }

    private function connect(): void
    {
        if (!$this->server->isConnected()) {
            $this->server->connect(getenv('REDIS_HOST'), (int) getenv('REDIS_PORT'), 5);
            $this->server->setOption(Redis::OPT_READ_TIMEOUT, 5);
        }
    }
}

function answer(Lock $lock, string $line): string
{
    if (str_starts_with($line, 'acquire ')) {
        $lock->acquire(substr($line, strlen('acquire ')));
        return 'acquired';
    }
    return match ($line) {
        'release' => $lock->release() ? 'released' : 'lost',
        'now' => (string) (int) (1000 * microtime(true)),
        'can cancel' => 'no',
        default => "error this is not understood: $line",
    };
}

$lock = new Lock();
while (($line = fgets(STDIN)) !== false) {
    try {
        $answer = answer($lock, trim($line));
    } catch (Throwable $e) {
        $answer = 'error ' . str_replace("\n", ' ', $e->getMessage());
    }
    echo $answer, "\n";
    flush();
}
