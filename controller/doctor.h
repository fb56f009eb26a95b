/* The body by which doctor asks whether the engine has the runtime: a create that fails for want of its image. [pure] */
#ifndef CONTROLLER_DOCTOR_H
#define CONTROLLER_DOCTOR_H

#include "controller/deployment.h"

char *doctor_runtime_body(const struct config *c);

#endif
