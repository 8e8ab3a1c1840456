# shellcheck shell=bash disable=SC2034,SC2046,SC2086
# Functions for the commands in tools/; sourced, never run. Lists of packages are split at blanks on purpose.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
SECONDS=0

if [ -t 1 ]; then bold=$'\e[1m' red=$'\e[31m' plain=$'\e[0m'; else bold='' red='' plain=''; fi

# step TEXT: prints one line with the time since the start.
step() { printf '%s[%3d:%02d] %s%s\n' "$bold" $((SECONDS / 60)) $((SECONDS % 60)) "$*" "$plain"; }
die() { printf '%s%s%s\n' "$red" "$*" "$plain" >&2; exit 1; }

jobs=${HEDDLE_JOBS:-$(nproc)}


# packages GROUP...: prints the names of the groups' packages, from tools/packages.
packages() {
  local group
  for group in "$@"; do awk -v group="$group" '$1 == group { print $2 }' tools/packages; done
}

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || echo "$package"
  done
}

# need_packages GROUP...: installs missing packages. Needs root only if there are any.
need_packages() {
  local wanted missing sudo=()
  wanted=$(packages "$@")
  if ! command -v dpkg-query >/dev/null; then
    step "no Debian package database here: taking for granted what these packages give: " $wanted
    return
  fi
  missing=$(missing_packages $wanted)
  if [ -z "$missing" ]; then
    step "packages: all of them are installed"
    return
  fi
  step "packages to install:" $missing
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "Not root, and there is no sudo. Please have someone run:
  apt-get update && apt-get install -y --no-install-recommends" $missing
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -q || step "apt-get update failed; trying with the lists that are there"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing ||
    die "apt-get could not install:" $missing
}

# source_files GLOB...: prints the project's files, tracked or new, that git does not ignore.
source_files() {
  if git -c safe.directory='*' rev-parse >/dev/null 2>&1; then
    git -c safe.directory='*' ls-files --cached --others --exclude-standard -- "$@"
  else
    local globs=() glob
    for glob in "${@:-*}"; do globs+=(-o -name "$glob"); done
    find . -path ./build -prune -o -type f \( "${globs[@]:1}" \) -print | sed 's|^\./||'
  fi | sort -u | while IFS= read -r file; do if [ -f "$file" ]; then printf '%s\n' "$file"; fi; done
}
