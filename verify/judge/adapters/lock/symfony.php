<?php
// Symfony's Lock over phpredis, for marketsim judge (apt-get install php-redis php-symfony-lock; with composer, its autoload).
require '/usr/share/php/Symfony/Component/Lock/autoload.php';
use Symfony\Component\Lock\{LockFactory, Store\RedisStore};

$server = new Redis();
$server->connect(getenv('REDIS_HOST'), (int) getenv('REDIS_PORT'), 5);
$lease = getenv('LOCK_TTL_MS') / 1000;
$locks = new LockFactory(new RedisStore($server, $lease));
while (($line = fgets(STDIN)) !== false) {
    $word = explode(' ', trim($line));
    try {
        if ($word[0] === 'acquire') {
            $lock = $locks->createLock(getenv('KEY_PREFIX') . $word[1], $lease, autoRelease: false);
            while (!$lock->acquire()) {
                usleep(1000 * (int) getenv('LOCK_RETRY_MS'));
            }
            echo "acquired\n";
        } else {
            $lock->release(); // it does not say whether the lock was still its own
            echo "done\n";
        }
    } catch (Throwable $e) {
        echo 'error ', str_replace("\n", ' ', $e->getMessage()), "\n";
    }
    flush();
}
