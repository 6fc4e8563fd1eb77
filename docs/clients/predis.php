<?php // What Predis tells whoever called it when a reply is lost: php predis.php HOST PORT incrby|buy
require 'Predis/autoload.php';
[, $host, $port, $what] = $argv;
$client = new Predis\Client(['host' => $host, 'port' => $port]);
$buy = function ($tx) {
    $left = $tx->get('coins') - 10;
    $tx->multi();
    $tx->set('coins', $left);
};
echo Predis\Client::VERSION, "\n";
try {
    $what === 'incrby' ? $client->incrby('n', 1) : $client->transaction(['watch' => 'coins', 'cas' => true, 'retry' => 3], $buy);
    echo "no error\n";
} catch (Predis\PredisException $e) {
    echo (new ReflectionClass($e))->getShortName(), "\n";
}
