#!/bin/sh
# The compiler of the preset tidy: clang-tidy reads what it compiles of ours. ccache keeps what has passed.
for word; do
    case $word in
        --version) clang-tidy-19 --version ;;
        */build/*.cc | */build/*.cxx | CMake*) ;;
        *.cc) clang-tidy-19 --quiet "$word" -- "$@" || exit ;;
    esac
done
exec c++ "$@"
