#!/bin/sh
# Packs the npm packages of an installed engramd: the launcher and the platform package.
#   install/npm/pack.sh PREFIX OUT     PREFIX: where install/setup.sh --prefix put it; OUT: for the .tgz
# Publish the platform package first: the launcher names its exact version.
set -eu
[ $# -eq 2 ] || { sed -n '3,4s/^# *//p' "$0" >&2; exit 2; }
prefix=$1
mkdir -p "$2"
out=$(cd -- "$2" && pwd)
here=$(cd -- "$(dirname -- "$0")" && pwd)
version=$("$prefix/bin/engramd" --version | cut -d' ' -f2)
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

for package in linux-x64 engramd; do
  cp -R "$here/$package" "$work/$package"
  sed -i "s/\"0\.0\.0\"/\"$version\"/" "$work/$package/package.json"
done
mkdir -p "$work/linux-x64/bin" "$work/linux-x64/share"
cp "$prefix/bin/engramd" "$work/linux-x64/bin/engramd"
cp -R "$prefix/share/engramd" "$work/linux-x64/share/engramd"
chmod 755 "$work/linux-x64/bin/engramd" "$work/engramd/engramd.cjs"
for package in linux-x64 engramd; do
  (cd "$work/$package" && npm pack --silent --ignore-scripts --pack-destination "$out")
done
