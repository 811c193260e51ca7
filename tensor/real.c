/* real.c -- the symbol that only the matching library has. */
#include "tensor/real.h"

int la_link_check(void) { return LA_REAL_BITS; }
