/** Bytes of the write-ahead log that may lie on the disk between two checkpoints. */
const maxWalBytes = 256 * 1_048_576

/** Bytes of a file of the write-ahead log. */
const walSegmentBytes = 16 * 1_048_576

/**
 * Bytes of free disk space below which writes are refused. PostgreSQL panics when the write-ahead log has no room, so there is always
 * enough for all of it up to the next checkpoint, and for the files that it creates ahead.
 */
export const minFreeBytes = maxWalBytes + 2 * walSegmentBytes

/** Connections of one process of the service: its pool, the one that listens, and one while it starts. */
const connectionsOfProcess = 12

/** Connections of the supervisor, which collects metrics, and of two commands, such as a backup and `npm run admin`. */
const connectionsOfOthers = 30

interface ServerSettings {
  /** Processes of the service. */
  readonly workers: number
  /** A port of 127.0.0.1; null listens on a socket in the data folder. */
  readonly port: number | null
}

/** The settings of PostgreSQL for a small machine that it shares with the service. The others have their defaults. */
export const serverSettings = ({ workers, port }: ServerSettings): Readonly<Record<string, string>> => ({
  // Relative to the data folder, so that its path may be longer than that of a socket. Only the user of the service enters the folder.
  unix_socket_directories: port === null ? '.' : '',
  listen_addresses: port === null ? '' : '127.0.0.1',
  port: String(port ?? socketPort),
  max_connections: String(workers * connectionsOfProcess + connectionsOfOthers),

  // A quarter of what is recommended for a machine of its own: the operating system caches the files as well.
  shared_buffers: '64MB',
  // Per autovacuum worker and index build; the default is 64 MB.
  maintenance_work_mem: '32MB',
  // In files of the data folder: /dev/shm of a container has 64 MB, and systemd's RemoveIPC deletes what is in there.
  dynamic_shared_memory_type: 'mmap',
  // No processes that only read files ahead.
  io_method: 'sync',
  // A query of a small installation takes milliseconds; a worker costs one, and memory. Requests share the processors instead.
  max_parallel_workers_per_gather: '0',
  max_parallel_maintenance_workers: '0',
  max_parallel_workers: '0',
  max_worker_processes: '0',
  max_logical_replication_workers: '0',
  autovacuum_max_workers: '1',
  autovacuum_worker_slots: '1',
  // For statements of a few milliseconds, compilation costs more than it saves.
  jit: 'off',

  // Nothing replicates this database, so that COPY and index builds can skip the write-ahead log of a new table.
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: String(maxWalBytes / 1_048_576),
  min_wal_size: String((2 * walSegmentBytes) / 1_048_576),

  timezone: 'UTC',
  log_timezone: 'UTC',
  // The service adds the time. Errors of statements are its business: it logs them without the values that they quote.
  log_line_prefix: '',
  log_min_messages: 'log',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
})

/** The port in the name of the socket. */
export const socketPort = 5432

/** The settings as arguments of `postgres`. */
export const settingArguments = (settings: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
