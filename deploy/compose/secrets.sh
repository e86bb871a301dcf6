#!/bin/sh
# Creates what compose.yaml needs, with the email address of the first administrator:
#
#     deploy/compose/secrets.sh ada@example.com
#
# Run it once, and again after an upgrade: it adds what is missing, and changes nothing. Containers run as different users, so the secrets
# are readable by all users, but the folder only by its owner.
set -eu
cd "$(dirname "$0")"
if [ -f secrets/taskwright.env ]; then
  echo "Everything is there: the secrets and taskwright.env are in $PWD/secrets. Nothing was changed."
  exit 0
fi
case ${1:-} in
  *?@?*) ;;
  *)
    echo "Usage: $0 <email address of the administrator>" >&2
    exit 2
    ;;
esac
# Made beside and then moved, so that a run that fails leaves nothing behind.
new=$(mktemp -d "$PWD/secrets.XXXXXX")
trap 'rm -rf "$new"' EXIT
if [ ! -d secrets ]; then
  password=$(openssl rand -hex 24)
  access=$(openssl rand -hex 10)
  secret=$(openssl rand -hex 24)
  openssl rand -base64 48 >"$new/jwt-secret"
  echo "$password" >"$new/postgres-password"
  echo "postgres://taskwright:$password@postgres:5432/taskwright" >"$new/database-url"
  printf '[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n' "$access" "$secret" >"$new/s3-credentials"
  printf 'ROOT_ACCESS_KEY_ID=%s\nROOT_SECRET_ACCESS_KEY=%s\n' "$access" "$secret" >"$new/s3.env"
fi
echo '{ "providers": [] }' >"$new/oidc.json"
chmod 644 "$new"/*
admin_password=$(openssl rand -base64 18)
cat >"$new/taskwright.env" <<SETTINGS
# Settings of the service in compose.yaml. docs/operations/configuration.md has all of them.
# Single quotes keep a value as it is: '\$' is special in others.

# The service creates this administrator before it answers the first request. Ignored once there has been an account.
ADMIN_EMAIL='$1'
ADMIN_PASSWORD='$admin_password'

# Administrators create accounts, and invitations work only with INVITATIONS=open. With "open", anybody can register.
REGISTRATION=closed
#INVITATIONS=open

#SMTP_URL='smtp://user:password@mail.example.com:587'
#MAIL_FROM='Taskwright <tasks@example.com>'

# Sign-in with OpenID Connect: write the providers to oidc.json beside this file, as in docs/operations/oidc.md.
#OIDC_CONFIG=/run/secrets/oidc.json
SETTINGS
chmod 600 "$new/taskwright.env"
if [ -d secrets ]; then
  [ -f secrets/oidc.json ] || mv "$new/oidc.json" secrets/
  mv "$new/taskwright.env" secrets/
else
  mv "$new" secrets
fi
echo "Made $PWD/secrets. The password of $1 is in taskwright.env, where registration, email and OpenID Connect are set, too."
