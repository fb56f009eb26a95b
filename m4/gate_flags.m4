dnl Compiler and linker switches. Each flag is probed, none is assumed.

dnl GATE_TRY_CFLAG(VARIABLE, FLAG): append FLAG to VARIABLE when the compiler takes it without a warning.
AC_DEFUN([GATE_TRY_CFLAG], [
  AC_MSG_CHECKING([whether $CC takes $2])
  gate_saved="$CFLAGS"
  CFLAGS="$CFLAGS -Werror $2"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[]], [[]])],
    [AC_MSG_RESULT([yes]); $1="$$1 $2"], [AC_MSG_RESULT([no])])
  CFLAGS="$gate_saved"
])

dnl GATE_TRY_LDFLAG(VARIABLE, FLAG): the same for the linker.
AC_DEFUN([GATE_TRY_LDFLAG], [
  AC_MSG_CHECKING([whether the linker takes $2])
  gate_saved="$LDFLAGS"
  LDFLAGS="$LDFLAGS $2"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[]], [[]])],
    [AC_MSG_RESULT([yes]); $1="$$1 $2"], [AC_MSG_RESULT([no])])
  LDFLAGS="$gate_saved"
])

AC_DEFUN([GATE_WARNINGS], [
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [treat warnings as errors (default: in the developer build, with --enable-sanitizers)])],
    [gate_werror=$enableval],
    [AS_CASE([$enable_sanitizers], [""|no], [gate_werror=no], [gate_werror=yes])])
  GATE_CFLAGS=""
  for flag in -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
      -Wpointer-arith -Wwrite-strings -Wvla -Wformat=2 -Wundef -Wswitch-enum -Wimplicit-fallthrough \
      -Wno-unused-parameter -fno-common; do
    GATE_TRY_CFLAG([GATE_CFLAGS], [$flag])
  done
  AS_IF([test "x$gate_werror" = xyes], [GATE_CFLAGS="$GATE_CFLAGS -Werror"])
  AC_SUBST([GATE_CFLAGS])
])

AC_DEFUN([GATE_HARDENING], [
  AC_ARG_ENABLE([hardening],
    [AS_HELP_STRING([--disable-hardening], [no PIE, RELRO, stack protector or control-flow protection])],
    [gate_hardening=$enableval], [gate_hardening=yes])
  HARDEN_CFLAGS="" HARDEN_LDFLAGS=""
  AS_IF([test "x$gate_hardening" = xyes], [
    for flag in -fPIE -fstack-protector-strong -fstack-clash-protection -fcf-protection=full; do
      GATE_TRY_CFLAG([HARDEN_CFLAGS], [$flag])
    done
    for flag in -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack; do
      GATE_TRY_LDFLAG([HARDEN_LDFLAGS], [$flag])
    done
    AS_CASE([" $CFLAGS $CPPFLAGS"], [*_FORTIFY_SOURCE*], [],
      [GATE_TRY_CFLAG([HARDEN_CFLAGS], [-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2])])
  ])
  AC_SUBST([HARDEN_CFLAGS])
  AC_SUBST([HARDEN_LDFLAGS])
])

dnl What an image FROM scratch or an image of any libc needs. Used by the programs that go into images alone:
dnl     PROGRAM_LDFLAGS = $(AM_LDFLAGS) $(STATIC_LDFLAGS)
AC_DEFUN([GATE_STATIC], [
  AC_ARG_ENABLE([static],
    [AS_HELP_STRING([--enable-static], [link the programs that go into images statically])],
    [gate_static=$enableval], [gate_static=no])
  STATIC_CFLAGS="" STATIC_LDFLAGS=""
  AS_IF([test "x$gate_static" != xno], [
    AS_IF([test "x$gate_sanitizers" != xno], [AC_MSG_ERROR([--enable-static and --enable-sanitizers exclude each other])])
    AS_IF([test "x$gate_hardening" = xyes], [GATE_TRY_LDFLAG([STATIC_LDFLAGS], [-static-pie])])
    AS_IF([test "x$STATIC_LDFLAGS" = x], [STATIC_LDFLAGS=-static])
    STATIC_CFLAGS="-ffunction-sections -fdata-sections -DSTATIC_PROGRAM"
    GATE_TRY_LDFLAG([STATIC_LDFLAGS], [-Wl,--gc-sections])
  ])
  AC_SUBST([STATIC_CFLAGS])
  AC_SUBST([STATIC_LDFLAGS])
])

AC_DEFUN([GATE_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers@<:@=LIST@:>@], [build with sanitizers (yes: address,undefined)])],
    [gate_sanitizers=$enableval], [gate_sanitizers=no])
  SANITIZER_FLAGS=""
  AS_CASE([$gate_sanitizers],
    [no], [],
    [yes], [gate_sanitizers=address,undefined
      SANITIZER_FLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"],
    [SANITIZER_FLAGS="-fsanitize=$gate_sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer"])
  dnl _FORTIFY_SOURCE hides reads from AddressSanitizer.
  AS_IF([test "x$gate_sanitizers" != xno], [
    SANITIZER_FLAGS="$SANITIZER_FLAGS -U_FORTIFY_SOURCE"])
  AM_CONDITIONAL([SANITIZED], [test "x$gate_sanitizers" != xno])
  AC_SUBST([SANITIZER_FLAGS])
])

AC_DEFUN([GATE_FUZZER], [
  AC_ARG_ENABLE([fuzzer],
    [AS_HELP_STRING([--enable-fuzzer], [build the libFuzzer harnesses (needs clang); without it they only replay])],
    [gate_fuzzer=$enableval], [gate_fuzzer=no])
  FUZZER_FLAGS=""
  AS_IF([test "x$gate_fuzzer" != xno], [
    AC_MSG_CHECKING([whether $CC links -fsanitize=fuzzer])
    gate_saved="$CFLAGS"
    CFLAGS="$CFLAGS -fsanitize=fuzzer"
    AC_LINK_IFELSE([AC_LANG_SOURCE([[
#include <stddef.h>
#include <stdint.h>
int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { (void)d; (void)n; return 0; }]])],
      [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([--enable-fuzzer needs clang with libFuzzer: CC=clang ./configure --enable-fuzzer])])
    CFLAGS="$gate_saved"
    FUZZER_FLAGS="-fsanitize=fuzzer-no-link"
  ])
  AM_CONDITIONAL([FUZZER], [test "x$gate_fuzzer" != xno])
  AC_SUBST([FUZZER_FLAGS])
])

AC_DEFUN([GATE_COVERAGE], [
  AC_ARG_ENABLE([coverage],
    [AS_HELP_STRING([--enable-coverage], [build with gcov instrumentation])],
    [gate_coverage=$enableval], [gate_coverage=no])
  COVERAGE_FLAGS=""
  AS_IF([test "x$gate_coverage" != xno], [COVERAGE_FLAGS="--coverage -O0"])
  AC_SUBST([COVERAGE_FLAGS])
])
