#!/bin/sh
# Calls the policy as muretai does: test.sh MURETAI PLUGIN
set -eu
ask() {
    "$1" plugin call "$2" --config config.json "{\"op\":\"policy\",\"method\":\"message/send\",\"contact\":\"$3\",\"domain\":$4,
        \"from\":\"did:key:z6MkNorth\",\"introduction\":null,\"now\":1784457000}"
}
expect() {
    case "$1" in
        *"$2"*) echo "ok: $2" ;;
        *) echo "expected $2, got $1" >&2; exit 1 ;;
    esac
}
expect "$(ask "$1" "$2" none '"south.example"')" '"decision":"hold"'
expect "$(ask "$1" "$2" direct '"south.example"')" '"decision":"pass"'
expect "$(ask "$1" "$2" none '"north.example"')" '"decision":"pass"'
expect "$(ask "$1" "$2" none null)" '"decision":"pass"'
