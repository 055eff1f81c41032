# Timed steps that stop at the first failure; sourced by .ci/run and tools/torture.
#   step NAME COMMAND...   runs COMMAND; on failure prints the table, one clear line, and exits
#   step_table             prints every step with its seconds
#   count_tests PRESET     how many tests the preset would run
#   run_tests PRESET       runs them; refuses to call zero tests a success
step_names=()
step_seconds=()
step_notes=()
step_note=""

step_table() {
  local i total=0
  printf '\n%-28s %8s  %s\n' step seconds result
  for i in "${!step_names[@]}"; do
    printf '%-28s %8s  %s\n' "${step_names[$i]}" "${step_seconds[$i]}" "${step_notes[$i]}"
    total=$((total + step_seconds[i]))
  done
  printf '%-28s %8s\n\n' total "$total"
}

step() {
  local name=$1 start=$SECONDS result=0
  shift
  step_note=ok
  printf '\n== %s\n' "$name"
  # No `if "$@"`: that would switch `set -e` off inside the command.
  set +e
  "$@"
  result=$?
  set -e
  step_names+=("$name")
  step_seconds+=($((SECONDS - start)))
  if [ "$result" -ne 0 ]; then
    step_notes+=("FAILED, exit code $result")
    step_table
    echo "$0: step '$name' failed (exit code $result): $*" >&2
    exit 1
  fi
  step_notes+=("$step_note")
}

count_tests() {
  ctest --preset "$1" -N | sed -n 's/^Total Tests: //p'
}

# The closing line ("100% tests passed, 0 tests failed out of N") stays in $closing_line.
run_tests() {
  local preset=$1 log count
  log=build/$preset/ctest.log
  count=$(count_tests "$preset")
  if [ "${count:-0}" -eq 0 ]; then
    echo "no test is registered for preset $preset: nothing ran, which is no success" >&2
    return 1
  fi
  ctest --preset "$preset" --output-log "$log" || return
  closing_line=$(grep 'tests passed' "$log") || return
  step_note=$closing_line
}

# configure_and_build PRESET [TARGET]
configure_and_build() {
  cmake --preset "$1" || return
  cmake --build --preset "$1" --parallel "${JOBS:-$(nproc)}" ${2:+--target "$2"}
}
