<?php
// Loads Guzzle and the classes of the client, as Composer's autoload.php does in an application.
declare(strict_types=1);

require 'GuzzleHttp/autoload.php';

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Taskwright\\')) {
        require __DIR__ . '/taskwright/lib/' . str_replace('\\', '/', substr($class, strlen('Taskwright\\'))) . '.php';
    }
});

// Makes warnings and deprecations errors.
error_reporting(E_ALL);
set_error_handler(static function (int $severity, string $message, string $file, int $line): never {
    throw new ErrorException($message, 0, $severity, $file, $line);
});
