#!/bin/sh
# Installs the Node.js packages for the tests of docs/probed, exactly those of node/package-lock.json: npm checks
# their hashes. No package runs a script during its installation. If they are installed, it does nothing.
set -eu
cd "$(dirname "$0")/node"
if cmp -s package-lock.json node_modules/.installed; then exit 0; fi
npm ci --ignore-scripts --no-audit --no-fund
cp package-lock.json node_modules/.installed
