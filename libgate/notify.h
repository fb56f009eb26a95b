/* Tells the service manager how the program is: systemd's notification protocol, spoken directly (sd_notify(3)). */
#ifndef GATE_NOTIFY_H
#define GATE_NOTIFY_H

#include <stdint.h>

#include "libgate/util.h"

/* Sends assignments, one a line ("READY=1\nSTATUS=…"), to $NOTIFY_SOCKET; without that variable nothing happens. Failure
 * is not an error: nobody may be listening. */
void notify_send(const char *fmt, ...) PRINTF(1, 2);

/* READY follows once the reload is over. */
void notify_reloading(void);

/* Half of $WATCHDOG_USEC in milliseconds, when it is meant for this process; 0: no watchdog. */
int64_t notify_watchdog_ms(void);

#endif
