/* memberships.compute_all */ select count(*)::text from compute_memberships($1::uuid[], null);
