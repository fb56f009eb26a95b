/*
 * The id of a request whose text is JSON and is not taken all the same: a string that was cut within a character (JavaScript
 * writes what is left as a lone surrogate), a NUL, a name twice. Told under no id, such an error leaves its asker waiting. [pure]
 */
#ifndef CONTROLLER_REQUEST_ID_H
#define CONTROLLER_REQUEST_ID_H

#include <stdbool.h>

#include "libgate/json.h"

/* Does the fault leave the rest of the text to be understood? */
bool request_id_survives(enum json_fault fault);
/*
 * The value of the one member "id" of the object that the text is: its bytes, as they stand there. false: there is none, or
 * more than one. Whether they are an id is the caller's to find out; what else the text holds is not judged.
 */
bool request_id_find(struct slice text, struct slice *value) MUSTCHECK;

#endif
