#!/bin/sh
# Makes the completion and the man pages of the `reprise` command as it will be installed.
# Usage: command.sh ROOT PROGRAMS FOLDER
set -eu

PYTHONPATH=$PWD/$1
REPRISE_PROGRAMS=$PWD/$2
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH REPRISE_PROGRAMS PYTHONDONTWRITEBYTECODE
folder=$3
command=$folder/reprise # man pages take its name

mkdir -p "$folder"
printf '#!/bin/sh\nexec "%s" -P -m cli "$@"\n' "$PYTHONPATH/.venv/bin/python" >"$command"
chmod +x "$command"
version=$("$command" --version)
"$PYTHONPATH/.venv/bin/python" -P -m cli.completion bash >"$folder/completion"
"$PYTHONPATH/.venv/bin/python" -P -m cli.completion zsh >"$folder/_reprise"
"$PYTHONPATH/.venv/bin/python" -P -m cli.completion --commands >"$folder/commands"
while IFS='	' read -r words line; do
    help2man --no-info --no-discard-stderr --version-string="${version#reprise }" --name="$line" \
        --help-option="${words#reprise} --help" --output="$folder/$(echo "$words" | tr ' ' -).1" "$command"
done <"$folder/commands"
