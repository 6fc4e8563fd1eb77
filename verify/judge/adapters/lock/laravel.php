<?php
// Laravel's lock of a cache, over phpredis, for marketsim judge (apt-get install php-redis php-illuminate-cache
// php-illuminate-redis; in an application, Cache::lock). Its leases are whole seconds.
require '/usr/share/php/Illuminate/Redis/autoload.php';
require '/usr/share/php/Illuminate/Cache/autoload.php';

$server = ['host' => getenv('REDIS_HOST'), 'port' => getenv('REDIS_PORT'), 'timeout' => 5];
$redis = new Illuminate\Redis\RedisManager(new stdClass(), 'phpredis', ['default' => $server]);

function acquire(Illuminate\Redis\RedisManager $redis, string $name): Illuminate\Cache\RedisLock
{
    $seconds = (int) ceil(getenv('LOCK_TTL_MS') / 1000);
    $lock = new Illuminate\Cache\RedisLock($redis->connection(), getenv('KEY_PREFIX') . $name, $seconds);
    while (!$lock->get()) {
        usleep(1000 * (int) getenv('LOCK_RETRY_MS'));
    }
    return $lock;
}

while (($line = fgets(STDIN)) !== false) {
    [$word, $name] = explode(' ', trim($line)) + [1 => ''];
    try {
        switch ($word) {
            case 'acquire':
                $lock = acquire($redis, $name);
                $answer = 'acquired';
                break;
            case 'release':
                $answer = $lock->release() ? 'released' : 'lost';
                break;
            case 'now':
                $answer = (int) (1000 * microtime(true));
                break;
            case 'can':
                $answer = 'no'; // its calls cannot be cancelled
                break;
            default:
                $answer = "error this is not understood: $word";
        }
    } catch (Throwable $e) {
        $answer = 'error ' . str_replace("\n", ' ', $e->getMessage());
    }
    echo $answer, "\n";
    flush();
}
