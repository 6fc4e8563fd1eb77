<?php // What phpredis tells whoever called it when a reply is lost: php phpredis.php HOST PORT incrby|buy
[, $host, $port, $what] = $argv;
echo phpversion('redis') ?: exit(1), "\n";
$redis = new Redis();
$redis->connect($host, (int) $port);
$buy = function () use ($redis) {
    do {
        $redis->watch('coins');
        $left = $redis->get('coins') - 10;
    } while ($redis->multi()->set('coins', $left)->exec() === false);
};
try {
    $what === 'incrby' ? $redis->incrBy('n', 1) : $buy();
    echo "no error\n";
} catch (RedisException $e) {
    echo get_class($e), "\n";
}
