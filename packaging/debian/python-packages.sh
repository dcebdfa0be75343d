#!/bin/sh
# Makes the virtual environment FOLDER of the installed package: the pinned Python packages of runs, reports
# and runs on several hosts, from PyPI, as built there. Usage: python-packages.sh FOLDER
set -eu

folder=$1
installed=/usr/lib/reprise/.venv
pip=$(mktemp -d)
trap 'rm -rf "$pip"' EXIT

/usr/bin/python3 -m venv "$pip"
/usr/bin/python3 -m venv --without-pip "$folder"
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Without built packages compilers for several languages would be needed.
"$pip/bin/python" -m pip --python "$folder/bin/python" install --disable-pip-version-check --no-cache-dir \
    --no-compile --only-binary=:all: --require-hashes -r requirements.txt -r requirements-hosts.txt

# Programs: those of Ansible are used. They name the folder that they were made in.
find "$folder/bin" -type f ! -name 'ansible*' -delete
rm "$folder/bin/ansible-test"
sed -i "1s|^#!.*|#!$installed/bin/python|" "$folder"/bin/ansible*
sed -i '/^command = /d' "$folder/pyvenv.cfg"

# Tests of the packages themselves, a fifth of all files.
find "$site" -depth -type d -name tests -exec rm -r {} +
rm -r "$site/ansible_test"
find "$folder" -name __pycache__ -exec rm -r {} +
