/* installation.exists */ select exists (select from installation);
