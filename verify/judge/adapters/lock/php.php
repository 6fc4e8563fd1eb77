<?php
// SET NX PX and a script that compares and deletes, with phpredis, for marketsim judge (apt-get install php-redis).
$server = new Redis();
$connect = fn () => $server->connect(getenv('REDIS_HOST'), (int) getenv('REDIS_PORT'), 5);
$connect();
$release = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
while (($line = fgets(STDIN)) !== false) {
    $word = explode(' ', trim($line));
    try {
        if (!$server->isConnected()) {
            $connect();
        }
        if ($word[0] === 'acquire') {
            [$name, $token] = [getenv('KEY_PREFIX') . $word[1], bin2hex(random_bytes(16))];
            while (!$server->set($name, $token, ['nx', 'px' => (int) getenv('LOCK_TTL_MS')])) {
                usleep(1000 * (int) getenv('LOCK_RETRY_MS'));
            }
            echo "acquired\n";
        } else {
            echo $server->eval($release, [$name, $token], 1) ? "released\n" : "lost\n";
        }
    } catch (Throwable $e) {
        echo 'error ', str_replace("\n", ' ', $e->getMessage()), "\n";
    }
    flush();
}
