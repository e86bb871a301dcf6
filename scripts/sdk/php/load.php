<?php
// Compiles all files of the client.
declare(strict_types=1);

require __DIR__ . '/autoload.php';

$files = new RecursiveIteratorIterator(new RecursiveDirectoryIterator(__DIR__ . '/taskwright/lib', FilesystemIterator::SKIP_DOTS));
foreach ($files as $file) {
    require_once $file->getPathname();
}
