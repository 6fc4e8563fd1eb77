<?php
// Symfony's Lock over phpredis, for marketsim judge (apt-get install php-redis php-symfony-lock; with composer,
// its autoload).
require '/usr/share/php/Symfony/Component/Lock/autoload.php';
use Symfony\Component\Lock\{LockFactory, LockInterface, Store\RedisStore};

function acquire(LockFactory $locks, string $name, float $lease): LockInterface
{
    $lock = $locks->createLock(getenv('KEY_PREFIX') . $name, $lease, autoRelease: false);
    while (!$lock->acquire()) {
        usleep(1000 * (int) getenv('LOCK_RETRY_MS'));
    }
    return $lock;
}

$server = new Redis();
$server->connect(getenv('REDIS_HOST'), (int) getenv('REDIS_PORT'), 5);
$lease = getenv('LOCK_TTL_MS') / 1000;
$locks = new LockFactory(new RedisStore($server, $lease)); // without it, the lease is 300 s until it is set
while (($line = fgets(STDIN)) !== false) {
    [$word, $name] = explode(' ', trim($line)) + [1 => ''];
    try {
        switch ($word) {
            case 'acquire':
                $lock = acquire($locks, $name, $lease);
                $answer = 'acquired';
                break;
            case 'release':
                $lock->release(); // it does not say whether the lock was still its own
                $answer = 'done';
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
