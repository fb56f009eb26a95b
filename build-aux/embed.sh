#!/bin/sh
# embed.sh NAME HEADER FILE: prints a C source that defines NAME_text[] and NAME_size with the bytes of FILE.
set -eu
name=$1 header=$2 file=$3
printf '/* Made by build-aux/embed.sh from %s. */\n#include "%s"\n\n' "$(basename "$file")" "$header"
printf 'const char %s_text[] = {\n' "$name"
od -An -v -tu1 "$file" | awk '{ for (i = 1; i <= NF; i++) printf "%s(char)%s,", i == 1 ? "\t" : " ", $i; print "" }'
printf '};\nconst size_t %s_size = sizeof(%s_text);\n' "$name" "$name"
