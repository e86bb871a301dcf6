"""Validates the objects in a file with the schemas of the given versions of Kubernetes. Unknown fields are errors.

    main.py <file> <version>...
"""

import sys

import yaml
from kubernetes_validate import SchemaNotFoundError, ValidationError, validate


def main(path: str, versions: list[str]) -> None:
    with open(path, encoding="utf-8") as file:
        objects = list(yaml.safe_load_all(file))
    for version in versions:
        for found in objects:
            name = f"Kubernetes {version}, {found['kind']} {found['metadata']['name']}"
            try:
                validate(found, version, strict=True)
            except SchemaNotFoundError as error:
                sys.exit(f"{name}: {error.message}")
            except ValidationError as error:
                sys.exit(f"{name}: {'.'.join(map(str, error.path))}: {error.message}")


main(sys.argv[1], sys.argv[2:])
