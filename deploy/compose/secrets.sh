#!/bin/sh
# Creates the secrets of compose.yaml. Run it once. Containers run as different users, so the files are readable by all users, but
# the folder only by its owner.
set -eu
cd "$(dirname "$0")"
if [ -d secrets ]; then
  echo "The secrets are in $PWD/secrets already. Nothing was changed."
  exit 0
fi
# Made beside and then renamed, so that a run that fails leaves nothing behind.
new=$(mktemp -d "$PWD/secrets.XXXXXX")
trap 'rm -rf "$new"' EXIT
cd "$new"
password=$(openssl rand -hex 24)
access=$(openssl rand -hex 10)
secret=$(openssl rand -hex 24)
openssl rand -base64 48 >jwt-secret
echo "$password" >postgres-password
echo "postgres://taskwright:$password@postgres:5432/taskwright" >database-url
printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$access" "$secret" >s3-credentials
printf 'ROOT_ACCESS_KEY_ID=%s\nROOT_SECRET_ACCESS_KEY=%s\n' "$access" "$secret" >s3.env
chmod 644 -- *
cd ..
mv "$new" secrets
