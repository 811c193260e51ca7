
#include "autograd/params.h"
la_param la_params_add_frozen(la_params *p, const char *name, la_shape s, la_init how, double scale){ return la_params_add(p,name,s,how,scale);}
