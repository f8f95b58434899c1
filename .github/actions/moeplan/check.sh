#!/usr/bin/env bash
# check.sh MOEPLAN: runs `MOEPLAN check` with the action's inputs; its exit code is the gate's.
set -euo pipefail
moeplan=$1

# Patterns are split at blanks and expanded here, and nothing in them is executed.
shopt -s nullglob globstar
read -r -d '' -a patterns <<<"${MOEPLAN_ACTION_CONFIG:-}" || true
configs=()
for pattern in ${patterns[@]+"${patterns[@]}"}; do
  # A pattern that matches nothing is a mistake, not an empty check.
  # shellcheck disable=SC2206
  if [ -e "$pattern" ]; then matches=("$pattern"); else matches=($pattern); fi
  if [ ${#matches[@]} -eq 0 ] || [ ! -e "${matches[0]}" ]; then
    echo "error[usage]: no config matches $pattern" >&2
    exit 2
  fi
  configs+=("${matches[@]}")
done
if [ ${#configs[@]} -eq 0 ]; then
  echo "error[usage]: the input config names no file" >&2
  exit 2
fi

arguments=(check)
for config in "${configs[@]}"; do arguments+=(--config "$config"); done
[ -z "${MOEPLAN_ACTION_POLICY:-}" ] || arguments+=(--policy "$MOEPLAN_ACTION_POLICY")
[ -z "${MOEPLAN_ACTION_BASELINE:-}" ] || arguments+=(--baseline "$MOEPLAN_ACTION_BASELINE")
arguments+=(-o github -o junit=moeplan.xml -o sarif=moeplan.sarif)
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || arguments+=(-o "markdown+=$GITHUB_STEP_SUMMARY")
exec "$moeplan" "${arguments[@]}"
