<?php
// Symfony's Semaphore with a limit of one, over phpredis, for marketsim judge (apt-get install php-redis
// php-symfony-semaphore). Its leases are whole seconds: half a second is refused by the server, after the script has
// written.
//
//     marketsim judge --lease 3s -- php verify/judge/libraries/semaphore.php
require '/usr/share/php/Symfony/Component/Semaphore/autoload.php';
use Symfony\Component\Semaphore\{SemaphoreFactory, SemaphoreInterface, Store\RedisStore};

function acquire(SemaphoreFactory $semaphores, string $name, float $lease): ?SemaphoreInterface
{
    $semaphore = $semaphores->createSemaphore(getenv('KEY_PREFIX') . $name, 1, 1, $lease, false);
    $givesUp = microtime(true) + 4 * $lease;
    while (!$semaphore->acquire()) {
        if (microtime(true) > $givesUp) {
            return null;
        }
        usleep(1000 * (int) getenv('LOCK_RETRY_MS'));
    }
    return $semaphore;
}

/** What an error says, with the library's cause behind it. */
function told(Throwable $e): string
{
    $cause = $e->getPrevious() ? ': ' . $e->getPrevious()->getMessage() : '';
    return str_replace("\n", ' ', $e->getMessage() . $cause);
}

$server = new Redis();
$server->connect(getenv('REDIS_HOST'), (int) getenv('REDIS_PORT'), 5);
$semaphores = new SemaphoreFactory(new RedisStore($server));
$lease = ceil(getenv('LOCK_TTL_MS') / 1000);
while (($line = fgets(STDIN)) !== false) {
    [$word, $name] = explode(' ', trim($line)) + [1 => ''];
    try {
        switch ($word) {
            case 'acquire':
                $semaphore = acquire($semaphores, $name, $lease);
                $answer = $semaphore ? 'acquired' : 'timeout';
                break;
            case 'release':
                $semaphore->release(); // it does not say whether it was still held
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
        $answer = 'error ' . told($e);
    }
    echo $answer, "\n";
    flush();
}
