/* task_relations.select_path */ select array_to_string(blocking_path($1::uuid, $2::uuid), ',') as path;
