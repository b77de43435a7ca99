#!/bin/sh
# Installs the packages of Node.js that the tests of docs/peers run, exactly as
# node/package-lock.json has them: npm checks each against its hash there. None of them runs
# a script at its installation. Once they are there, it does nothing.
set -eu
cd "$(dirname "$0")/node"
if cmp -s package-lock.json node_modules/.installed; then exit 0; fi
npm ci --ignore-scripts --no-audit --no-fund
cp package-lock.json node_modules/.installed
