<?php
// Shows what phpredis does if its connection ends between a command and the reading of its reply: it connects again,
// sends nothing there, and waits for as long as its read_timeout. The server here ends its side while it still reads a
// long command, so that phpredis finds the end before it reads. Ends with 0 if that was seen, and with 3 if not.
const READ_TIMEOUT = 1.0; // seconds; 0, the default, is PHP's default_socket_timeout of 60

$server = stream_socket_server('tcp://127.0.0.1:0');
$port = (int) substr(strrchr(stream_socket_get_name($server, false), ':'), 1);
$pipe = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
$child = pcntl_fork();
if ($child === 0) { // the server
    $first = stream_socket_accept($server, 10);
    fread($first, 1);
    stream_socket_shutdown($first, STREAM_SHUT_WR);
    while (!feof($first) && fread($first, 1 << 16) !== '');
    $second = @stream_socket_accept($server, 5);
    fwrite($pipe[1], $second === false ? 'none' : strlen(fread($second, 100)) . ' bytes'); // fread ends with the client
    posix_kill(posix_getpid(), SIGKILL); // PHP would end its parent's connections
}

$redis = new Redis();
$redis->connect('127.0.0.1', $port, 1, null, 0, READ_TIMEOUT);
$began = microtime(true);
$error = 'none';
try {
    $redis->set('key', str_repeat('x', 20_000_000));
} catch (RedisException $e) {
    $error = preg_replace('/ to .*/', '', $e->getMessage());
}
$waited = microtime(true) - $began;
unset($redis); // closes the connection
pcntl_waitpid($child, $status);
$sent = fread($pipe[0], 100);

echo "phpredis ", phpversion('redis'), ": on its second connection it sent $sent; error: $error\n";
$seen = $sent === '0 bytes' && $error === 'read error on connection' && $waited >= READ_TIMEOUT;
exit($seen ? 0 : 3);
