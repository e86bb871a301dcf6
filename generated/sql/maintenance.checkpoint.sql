/* maintenance.checkpoint */ checkpoint;
