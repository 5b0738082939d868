#!/bin/sh
# Installs the program that is beside this script, and fuse3, which mounts for users
# other than root.
set -eu
cd "$(dirname "$0")"
case $(uname -m) in
x86_64) program=amberfs-amd64 ;;
aarch64 | arm64) program=amberfs-arm64 ;;
*)
	echo "amberfs: this feature has programs for x86_64 and aarch64, not for $(uname -m)" >&2
	exit 1
	;;
esac
has() { command -v "$1" >/dev/null 2>&1; }
if has fusermount3; then
	:
elif has apt-get; then
	apt-get update
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends fuse3
	rm -rf /var/lib/apt/lists/*
elif has apk; then
	apk add --no-cache fuse3
elif has dnf; then
	dnf install -y fuse3
else
	echo "amberfs: no apt-get, apk or dnf here: users other than root need the package fuse3" >&2
fi
mkdir -p /usr/local/bin
cp "$program" /usr/local/bin/amberfs
chmod 755 /usr/local/bin/amberfs
