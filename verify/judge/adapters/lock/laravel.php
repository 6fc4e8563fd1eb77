<?php
// Laravel's lock of a cache, over phpredis, for marketsim judge (apt-get install php-redis php-illuminate-cache
// php-illuminate-redis; in an application, Cache::lock). Its leases are whole seconds.
require '/usr/share/php/Illuminate/Redis/autoload.php';
require '/usr/share/php/Illuminate/Cache/autoload.php';

$server = ['host' => getenv('REDIS_HOST'), 'port' => getenv('REDIS_PORT'), 'timeout' => 5];
$redis = new Illuminate\Redis\RedisManager(new stdClass(), 'phpredis', ['default' => $server]);
$seconds = (int) ceil(getenv('LOCK_TTL_MS') / 1000);
while (($line = fgets(STDIN)) !== false) {
    $word = explode(' ', trim($line));
    try {
        if ($word[0] === 'acquire') {
            $lock = new Illuminate\Cache\RedisLock($redis->connection(), getenv('KEY_PREFIX') . $word[1], $seconds);
            while (!$lock->get()) {
                usleep(1000 * (int) getenv('LOCK_RETRY_MS'));
            }
            echo "acquired\n";
        } else {
            echo $lock->release() ? "released\n" : "lost\n";
        }
    } catch (Throwable $e) {
        echo 'error ', str_replace("\n", ' ', $e->getMessage()), "\n";
    }
    flush();
}
