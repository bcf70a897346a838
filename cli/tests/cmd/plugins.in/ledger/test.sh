#!/bin/sh
# Calls the plugin as muretai does: test.sh MURETAI PLUGIN
set -eu
ask() {
    "$1" plugin call "$2" "{\"op\":\"skill\",\"skill\":\"ledger\",\"text\":\"$3\",\"messageId\":\"m-1\",\"contextId\":null,
        \"from\":{\"did\":\"did:key:z6MkNorth\",\"contact\":\"direct\"},\"now\":1784457000}"
}
expect() {
    case "$1" in
        *"$2"*) echo "ok: $2" ;;
        *) echo "expected $2, got $1" >&2; exit 1 ;;
    esac
}
expect "$(ask "$1" "$2" 'one two three')" '"text":"3 words"'
expect "$(ask "$1" "$2" 'one')" '"text":"1 word"'
expect "$(ask "$1" "$2" ' ')" '"error":"there are no words'
