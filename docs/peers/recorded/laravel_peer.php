#!/usr/bin/php
<?php
// Laravel's RateLimiter over its Redis cache store, and its Redis::throttle, for record.py.
foreach (['Support', 'Container', 'Cache', 'Redis'] as $part) {
    require_once "/usr/share/php/Illuminate/$part/autoload.php";
}

use Illuminate\Cache\RateLimiter;
use Illuminate\Cache\RedisStore;
use Illuminate\Cache\Repository;
use Illuminate\Redis\Limiters\DurationLimiter;
use Illuminate\Redis\RedisManager;

// The middleware decides in this way: too many attempts, or a hit. What is a client's key is SHA-1, as
// the middleware's is, or MD5, as that of a named limiter.
$cases = [
    ['limiter', 'phpredis', 5, 2], ['limiter', 'predis', 3, 5], ['limiter', 'phpredis', 10, 60], ['limiter', 'predis', 1, 1],
    ['throttle', 'phpredis', 4, 2], ['throttle', 'predis', 2, 4], ['throttle', 'phpredis', 10, 60], ['throttle', 'predis', 1, 1],
];
$config = [
    'options' => ['prefix' => 'laravel_database_'],
    'default' => ['host' => '127.0.0.1', 'port' => (int) end($argv), 'database' => 0],
];
$app = new Illuminate\Container\Container();
$connections = $limiters = [];
foreach (['phpredis', 'predis'] as $client) {
    $manager = new RedisManager($app, $client, $config);
    $connections[$client] = $manager->connection();
    $limiters[$client] = new RateLimiter(new Repository(new RedisStore($manager, 'laravel_cache', 'default')));
}
echo json_encode(array_map(
    fn ($case) => ['name' => $case[0], 'limit' => "$case[2]/$case[3]s", 'period' => min($case[3], 6)],
    $cases
)), "\n";
while (($line = fgets(STDIN)) !== false) {
    $asked = json_decode($line, true);
    [$kind, $client, $limit, $period] = $cases[$asked['case']];
    if ($kind === 'limiter') {
        $key = $limit === 10 ? md5('api' . $asked['id']) : sha1('example.com|' . $asked['id']);
        $limiter = $limiters[$client];
        if ($asked['op'] === 'peek') {
            $answer = ['used' => (int) $limiter->attempts($key), 'remaining' => $limiter->remaining($key, $limit),
                'retry' => $limiter->availableIn($key)];
        } elseif ($limiter->tooManyAttempts($key, $limit)) {
            $answer = ['allowed' => false, 'retry' => $limiter->availableIn($key)];
        } else {
            $answer = ['allowed' => true, 'used' => $limiter->hit($key, $period) - 1];
        }
    } else {
        $limiter = new DurationLimiter($connections[$client], sha1('api' . $asked['id']), $limit, $period);
        if ($asked['op'] === 'peek') {
            $denied = $limiter->tooManyAttempts();
            $answer = ['denied' => $denied, 'remaining' => $limiter->remaining, 'reset' => (int) $limiter->decaysAt];
        } else {
            $answer = ['allowed' => $limiter->acquire(), 'remaining' => $limiter->remaining, 'reset' => (int) $limiter->decaysAt];
        }
    }
    echo json_encode($answer), "\n";
}
