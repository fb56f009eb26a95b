/*
 * Host names and authorities: one strict parse, one spelling. [pure]
 *
 * A host is a DNS name of letters, digits, '-' and '_' in labels of 1..63 bytes, 253 in all. Case is folded and exactly one
 * trailing dot is dropped. Whatever some resolver could take for an address (a last label that is all digits or 0x and hex
 * digits, a bracketed IPv6 address) is REASON_IP_LITERAL; every other deviation is a syntax fault.
 */
#ifndef EGRESSD_HOST_H
#define EGRESSD_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "egressd/reason.h"
#include "libgate/dns_name.h"
#include "libgate/slice.h"
#include "libgate/util.h"

enum reason host_parse(struct slice text, struct host *out) MUSTCHECK;

/* 1..65535 in plain decimal: no sign, no leading zero, nothing else. */
bool port_parse(struct slice text, uint16_t *out) MUSTCHECK;

/* "host:port"; a missing port is taken as dflt, or is REASON_PORT_SYNTAX when dflt is 0. */
enum reason authority_parse(struct slice text, uint16_t dflt, struct host *host, uint16_t *port) MUSTCHECK;

#endif
