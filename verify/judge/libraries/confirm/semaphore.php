<?php
// Shows on the redis-server of REDIS_HOST and REDIS_PORT that Symfony's Semaphore trusts each client's clock: a client
// whose clock is ahead gets in while another one is inside, within its time to live. And that a time to live with a
// fraction is told to be refused, and was written. Ends with 0 if both were seen, and with 3 if not.
require '/usr/share/php/Symfony/Component/Semaphore/autoload.php';
use Symfony\Component\Semaphore\{SemaphoreFactory, SemaphoreInterface, Store\RedisStore};

function semaphore(string $name, float $seconds): SemaphoreInterface
{
    $server = new Redis();
    $server->connect(getenv('REDIS_HOST'), (int) getenv('REDIS_PORT'), 5);
    $semaphores = new SemaphoreFactory(new RedisStore($server));
    return $semaphores->createSemaphore($name, 1, 1, $seconds, false);
}

if (isset($argv[1])) { // as another client
    echo semaphore($argv[1], 60)->acquire() ? 'taken' : 'refused';
    exit(0);
}

$name = 'confirm-' . bin2hex(random_bytes(8));
$another = 'php ' . escapeshellarg(__FILE__) . ' ' . $name;
$first = semaphore($name, 60);
$taken = $first->acquire();
$right = shell_exec($another);
$ahead = shell_exec("faketime -f +3600s $another");
$still = $first->isAcquired();
echo 'the first client has ', $taken ? 'taken' : 'not taken', " the semaphore for a minute\n";
echo "another one whose clock is right: $right; one whose clock is an hour ahead: $ahead\n";
echo 'then the first one ', $still ? 'still has it' : 'has it no more', "\n";
$first->release();

$half = semaphore("$name-half", 0.5);
$told = $half->acquire(); // the script has written when EXPIREAT refuses a time with a fraction
$kept = $half->isAcquired();
echo 'for half a second it is told to be ', $told ? 'taken' : 'refused', ', and it is ', $kept ? '' : 'not ', "taken\n";

exit($right === 'refused' && $ahead === 'taken' && !$still && !$told && $kept ? 0 : 3);
